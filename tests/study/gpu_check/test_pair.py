"""Two workers are started, compared with one, and ended."""

import pytest

from study.gpu_check import pair as module
from study.gpu_check.pair import check_pair


@pytest.mark.slow
def test_two_workers_train_as_one():
    found = check_pair()
    assert found.backend == "gloo"
    assert not found.faults


@pytest.mark.slow
def test_workers_that_hang_are_ended(monkeypatch):
    monkeypatch.setattr(module, "SECONDS", 0.0)
    with pytest.raises(TimeoutError, match="did not end in 0 s"):
        check_pair()

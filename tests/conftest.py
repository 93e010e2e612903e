"""Shared by all tests: one small study config, and one local Ray for those that need it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from study.config import StudyConfig, make
from study.presets import SMOKE, quickstart

if TYPE_CHECKING:
    from ray.cluster_utils import Cluster

MakeConfig = Callable[..., StudyConfig]


@pytest.fixture
def config(tmp_path: Path) -> MakeConfig:
    """config(losses=["triplet"], ...): the smoke quickstart with changes, in a folder of its own."""

    def build(**changes: Any) -> StudyConfig:
        return make(quickstart() | SMOKE | {"studies": str(tmp_path / "studies")} | changes)

    return build


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Every test has a data folder of its own; none touches the user's."""
    from trainables.datasets.catalogue import index

    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:  # not the test's own one, which the test may undo
        patch.setenv("FAIRTRIAL_DATA", str(folder))
        index.cache_clear()
        yield folder
        index.cache_clear()


@pytest.fixture(scope="session")
def local_ray() -> Iterator[Cluster]:
    """One Ray for all tests that need it, to which nodes can be added; never a developer's own cluster."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": True, "dashboard_port": None})
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
def more_nodes(local_ray: Cluster) -> Iterator[Callable[..., Any]]:
    """more_nodes(num_cpus=1): another node, gone after the test."""
    added = []

    def add(**options: Any) -> Any:
        added.append(local_ray.add_node(**options))
        return added[-1]

    yield add
    for node in added:
        if node in local_ray.worker_nodes:
            local_ray.remove_node(node)

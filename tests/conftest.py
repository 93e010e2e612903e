"""Shared by all tests: which process runs them, one small study config, and one local Ray for those
that need it.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings
from xdist.scheduler import LoadFileScheduling

pytest.register_assert_rewrite("tests.support")  # before the first import of it

from study.config.study_config import StudyConfig, make  # noqa: E402
from study.presets import SMOKE  # noqa: E402
from tests.support.studies import from_scratch  # noqa: E402

if TYPE_CHECKING:
    from ray.cluster_utils import Cluster

os.environ["OMP_NUM_THREADS"] = (
    "1"  # before torch: up to four processes run tests, and each would take all cores
)
MakeConfig = Callable[..., StudyConfig]
ROOT = Path(__file__).parent.parent


@cache
def uses_ray(file: str) -> bool:
    return "mark.ray" in (ROOT / file).read_text()


class FilesAndOneRay(LoadFileScheduling):
    """A file's tests run in one process, which shares its fixtures; all files that use Ray run in
    one process, which shares its Ray.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::")[0]
        return "ray" if uses_ray(file) else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FilesAndOneRay:
    return FilesAndOneRay(config, log)


def pytest_configure(config: pytest.Config) -> None:
    """Property tests try few examples in the plain layer, and many in the slow one."""
    usual = {
        "deadline": None,
        "database": None,
        "suppress_health_check": [HealthCheck.function_scoped_fixture],
    }
    settings.register_profile("plain", max_examples=8, derandomize=True, **usual)
    settings.register_profile("slow", max_examples=100, **usual)
    settings.load_profile("slow" if _is_slow(config) else "plain")


def _is_slow(config: pytest.Config) -> bool:
    return "slow" in config.option.markexpr and "not slow" not in config.option.markexpr


@pytest.hookimpl(tryfirst=True)  # before -m takes its choice
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put property tests into both layers, files with Ray first since they take longest, and the
    cluster last since it ends every Ray.
    """
    for item in items:
        if _is_slow(config) and is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker("slow")
            item.add_marker(pytest.mark.timeout(1200))
        if item.get_closest_marker("long"):
            item.add_marker("slow")
        if "local_ray" in getattr(item, "fixturenames", ()) and not item.get_closest_marker("ray"):
            raise pytest.UsageError(
                f"{item.nodeid} uses local_ray, so it must be marked with pytest.mark.ray."
            )
    items.sort(
        key=lambda item: (
            item.get_closest_marker("cluster") is not None,
            not uses_ray(item.nodeid.split("::")[0]),
        )
    )


@pytest.fixture
def config(tmp_path: Path) -> MakeConfig:
    """config(losses=["triplet"], ...): the smoke quickstart with changes, in a folder of its own.

    It has one search and two seeds, unless a test asks for more searches.
    """

    def build(**changes: Any) -> StudyConfig:
        here = {"studies": str(tmp_path / "studies"), "searches": 1, "reproductions": 2}
        here["log_models"] = "none"  # what that needs takes seconds to import
        return make(from_scratch() | SMOKE | here | changes)

    return build


@pytest.fixture(autouse=True, scope="session")
def quick_stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Copy SQLite stores from a template: MLflow needs a second or two to create one."""
    from analysis.tracking import store

    client, folder, one_at_a_time = (
        store._client,
        tmp_path_factory.mktemp("fresh"),
        threading.RLock(),
    )
    template = folder / "template.db"

    def copy(uri: str) -> Any:
        if not uri.startswith("sqlite:///"):
            return client(uri)
        database = Path(uri.removeprefix("sqlite:///"))
        with one_at_a_time:
            if not database.exists() and database.parent.is_dir() and database.parent != folder:
                if not template.exists():
                    store.open_store(f"sqlite:///{folder / 'draft.db'}").search_experiments()
                    (folder / "draft.db").replace(template)
                shutil.copy(template, draft := database.with_name(f"{database.name}.draft"))
                draft.replace(database)
        return client(uri)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "_client", copy)
        yield


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Every test has a data folder of its own; none touches the user's."""
    from trainables.datasets.indexing import index

    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:  # not the test's own one, which the test may undo
        patch.setenv("FAIRTRIAL_DATA", str(folder))
        index.cache_clear()
        yield folder
        index.cache_clear()


SHARED: list[Cluster] = []  # the Ray of all tests, once one has asked for it


@pytest.fixture(scope="session")
def local_ray() -> Iterator[Cluster]:
    """One Ray for all tests that need it, to which nodes can be added; never a developer's own
    cluster.
    """
    import ray
    from ray.cluster_utils import Cluster

    from study.cluster.local_ray import start_ray

    def start() -> Cluster:
        options = {"num_cpus": 2, "include_dashboard": True, "dashboard_port": None}
        cluster = Cluster(initialize_head=True, head_node_args=options)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        return cluster

    SHARED.append(start_ray(start, print))
    yield SHARED[0]
    end_local_ray()


def end_local_ray() -> None:
    """End the Ray of all tests; nothing that needs it may come after."""
    import ray

    ray.shutdown()
    while SHARED:
        SHARED.pop().shutdown()


@pytest.fixture
def ray_address(local_ray: Cluster, monkeypatch: pytest.MonkeyPatch) -> str:
    """The shared Ray's address, which processes that this test starts find in RAY_ADDRESS."""
    monkeypatch.setenv("RAY_ADDRESS", local_ray.address)
    return str(local_ray.address)


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

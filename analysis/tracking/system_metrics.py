"""Log what the driver's machine does to the study's own run in MLflow, by MLflow's own monitor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from analysis.tracking.store import one_line, open_store
from analysis.tracking.study_page import study_run

SECONDS = 10  # between two samples


@contextmanager
def monitored(
    uri: str, study: str, say: Callable[[str], None], *, wanted: bool = True
) -> Iterator[None]:
    """Log CPU, memory, disk, network and GPUs while this lasts, if it is wanted.

    A resumed study continues at the next step. A store that is away costs these numbers alone.
    """
    if not wanted:
        yield
        return
    try:
        client = open_store(uri)
        experiment = client.get_experiment_by_name(study)
        run = study_run(client, experiment.experiment_id, study).info.run_id
        client.update_run(run, "RUNNING")
        from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

        monitor = SystemMetricsMonitor(
            run,
            sampling_interval=SECONDS,
            resume_logging=True,
            tracking_uri=uri,
        )
        monitor.start()
    except Exception as error:
        say(f"system_metrics=true, but MLflow takes none ({one_line(error)}); the study continues.")
        yield
        return
    try:
        yield
    finally:
        monitor.finish()
        try:
            client.set_terminated(run, "FINISHED")
        except Exception as error:
            say(f"The run of the system metrics is not ended in MLflow ({one_line(error)}).")

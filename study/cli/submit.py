"""fairtrial submit: run a study as a job on a cluster, from the laptop."""

import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qs, urlsplit

import typer

from search_spaces.own import FAIRTRIAL_PACKAGES
from study.cli.run import NewCode, Resume
from study.cli.terminal import FAIRTRIAL, Name, Sets, Smoke, Source, one_sentence
from study.cluster.head import CODE, ClusterHead, last_line
from study.config.sources import read_yaml, resolve
from study.errors import PreflightError
from trainables.workers.versions import ROOT

# Ray asks the entry point of a job to end, and ends it this many seconds later.
ENVIRONMENT = {
    "RAY_JOB_STOP_WAIT_TIME_S": "60",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "RAY_USAGE_STATS_ENABLED": "0",
}
Cluster = Annotated[
    Path, typer.Option("--cluster", metavar="FILE", help="the file that `ray up` took")
]
Follow = Annotated[
    bool,
    typer.Option(
        "--follow", help="show the study's output until it ends; Ctrl-C leaves it running"
    ),
]


@dataclass(frozen=True)
class Job:
    """Describe a job.

    study: its name. words: the arguments of `fairtrial run` on the head. file: a YAML file to send.
    """

    study: str
    words: tuple[str, ...]
    file: Path | None = None

    @property
    def entrypoint(self) -> str:
        return f"python -m study run {shlex.join(self.words)}"


def submit(
    source: Source,
    cluster: Cluster,
    sets: Sets = [],  # noqa: B006
    smoke: Smoke = False,
    name: Name = None,
    resume: Resume = False,
    new_code: NewCode = False,
    follow: Follow = False,
) -> None:
    """Run a study on a cluster: send this code, start the study there and say how to watch it.
    Takes the same options as run.
    """
    head = ClusterHead(cluster)
    with one_sentence():
        job = make_job(head, source, sets, smoke=smoke, name=name, resume=resume, new_code=new_code)
        with head.jobs() as client, bundle(job) as folder:
            number = next_attempt(job.study, [info.submission_id for info in client.list_jobs()])
            submission = client.submit_job(
                entrypoint=job.entrypoint,
                submission_id=f"{job.study}-{number}",
                runtime_env={"working_dir": str(folder), "env_vars": ENVIRONMENT},
                metadata={"study": job.study},
            )
            _tell(job, submission, cluster, head)
            code = _follow(client, submission, cluster, job) if follow else 0
        raise typer.Exit(code)


def make_job(
    head: ClusterHead,
    source: str,
    sets: Sequence[str],
    *,
    smoke: bool,
    name: str | None,
    resume: bool,
    new_code: bool,
) -> Job:
    """Check the study here, before anything is sent, and return its job.

    The cluster checks what depends on its own files.
    """
    file = Path(source) if source.endswith((".yaml", ".yml")) else None
    _check_secrets(str(_values(file, sets).get("tracking_uri") or ""))
    words = [
        file.name if file else source,
        *(["--smoke"] if smoke else []),
        *(["--name", name] if name else []),
    ]
    added = [f"studies={head.studies}"]
    if resume and not file:  # the study's own config is there
        study = name or (f"{source}-smoke" if smoke else source)
    else:
        checked = sets if smoke else [*sets, *_without_images(file, sets)]
        config = resolve(source, sets=checked, smoke=smoke, name=name).config
        study = config.name
        if head.gpu_nodes_come_later and config.gpus_per_worker is None:
            added.append("gpus_per_worker=1")
    words += [word for item in [*added, *sets] for word in ("--set", item)]
    words += ["--resume"] * resume + ["--new-code"] * new_code
    return Job(study, tuple(words), file)


def _values(file: Path | None, sets: Sequence[str]) -> dict[str, Any]:
    """Return the values of the file and of --set, before any check."""
    return (read_yaml(file) if file else {}) | {
        key: text for key, found, text in (item.partition("=") for item in sets) if found
    }


def _check_secrets(uri: str) -> None:
    address = urlsplit(uri)
    if address.password or any(
        re.search("pass|pwd|token|secret", key) for key in parse_qs(address.query)
    ):
        raise ValueError(
            "tracking_uri must have no password on its way to a cluster, where a job's command and "
            "files can be read; leave it out here, "
            "and keep it on the head: in ~/.pgpass for PostgreSQL, in ~/.mlflow/credentials for an "
            "MLflow server."
        )


def _without_images(file: Path | None, sets: Sequence[str]) -> list[str]:
    """Return values that check the study on sketches if its images are on the cluster only."""
    root = _values(file, sets).get("data_root")
    if not root or Path(str(root)).expanduser().exists():
        return []
    return [
        "dataset=sketches",
        "data_root=null",
        "train_classes=[]",
        "test_classes=[]",
        "exclude=[]",
        "split_file=null",
    ]


def next_attempt(study: str, known: Sequence[str | None]) -> int:
    """Return the number of the next job of this study: Ray takes an id only once."""
    numbers = [
        int(found[1])
        for each in known
        if (found := re.fullmatch(rf"{re.escape(study)}-(\d+)", each or ""))
    ]
    return max(numbers, default=0) + 1


@contextmanager
def bundle(job: Job) -> Iterator[Path]:
    """Yield a folder to send: the packages, the .py files of this folder (your own losses), the
    YAML file.

    Nothing else leaves this machine.
    """
    with tempfile.TemporaryDirectory(prefix="fairtrial-") as temporary:
        folder = Path(temporary)
        for package in FAIRTRIAL_PACKAGES:
            shutil.copytree(
                ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__")
            )
        for path in [*Path.cwd().glob("*.py"), *([job.file] if job.file else [])]:
            shutil.copy(path, folder / path.name)
        yield folder


def _tell(job: Job, submission: str, cluster: Path, head: ClusterHead) -> None:
    file = shlex.quote(str(cluster))
    at = f"--cluster {file}"
    mlflow = f"cd {CODE} && python -m study ui --no-browser --studies {head.studies}"
    for what, how in [
        ("Submitted", f"{submission}   (its driver is up in half a minute)"),
        ("Watch", f"{FAIRTRIAL} status {job.study} --watch {at}"),
        ("Stop", f"{FAIRTRIAL} stop {job.study} {at}"),
        ("Resume", f"{FAIRTRIAL} submit {job.study} --resume {at}"),
        ("Report", f"{FAIRTRIAL} report {job.study} {at}"),
        ("MLflow", f"ray exec {file} -p 5000 {shlex.quote(mlflow)}   (then http://127.0.0.1:5000)"),
    ]:
        print(f"{what:<10} {how}", flush=True)


def _follow(client: Any, submission: str, cluster: Path, job: Job) -> int:
    """Print the study's output until it ends, and return its exit code."""
    import asyncio

    watch = (
        f"`{FAIRTRIAL} status {job.study} --watch --cluster {shlex.quote(str(cluster))}` shows it."
    )

    async def lines() -> None:
        async for text in client.tail_job_logs(submission):
            sys.stdout.write(text)
            sys.stdout.flush()

    try:
        asyncio.run(lines())
        info = client.get_job_info(submission)
    except KeyboardInterrupt:
        print(f"\nThe study keeps running. {watch}")
        return 0
    except Exception as error:  # the laptop slept, or the network is gone
        raise PreflightError(
            f"The connection was lost ({last_line(str(error))}), but the study keeps running: "
            f"{watch}"
        ) from None
    if info.status == "SUCCEEDED":
        return 0
    print(
        f"fairtrial: The job {submission} ended as {info.status}: {info.message.split(',')[0]}.",
        file=sys.stderr,
    )
    return int(info.driver_exit_code or 1)

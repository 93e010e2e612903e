"""A study on a cluster from the laptop: what is sent and asked for, what comes back, and what is
said when it cannot be.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray.autoscaler.sdk
import ray.job_submission
import yaml
from ray.autoscaler._private.local.config import get_lock_path, get_state_path
from ray.autoscaler._private.local.node_provider import LocalNodeProvider
from ray.autoscaler.tags import (
    NODE_KIND_HEAD,
    STATUS_UP_TO_DATE,
    TAG_RAY_NODE_KIND,
    TAG_RAY_NODE_STATUS,
)
from typer.testing import CliRunner

import study.cluster.head
from analysis.record.ledger import Ledger
from study.__main__ import app
from study.cli.submit import bundle, make_job, next_attempt
from study.cluster.head import ClusterHead
from study.errors import PreflightError
from tests.conftest import MakeConfig
from tests.support import ROOT
from tests.support.events import study_started

PLAIN = {"smoke": False, "name": None, "resume": False, "new_code": False}


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cluster file of our own, in a folder of its own, with a token."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    (tmp_path / "token").write_text("secret")
    about = {
        "cluster_name": f"never-up-{tmp_path.name}",
        "provider": {"type": "local", "head_ip": "127.0.0.1", "worker_ips": []},
        "auth": {"ssh_user": "nobody"},
        "metadata": {"studies": str(tmp_path / "shared")},
    }
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump(about))
    return tmp_path / "cluster.yaml"


@pytest.fixture
def here(cluster: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The head is this machine: what would go by ssh runs in a shell here. The commands."""
    ran: list[str] = []

    def run(file: str, *, cmd: str, with_output: bool = False) -> bytes:
        ran.append(cmd)
        print("Fetched IP: 127.0.0.1")  # as Ray does
        words = cmd.replace("cd ~/fairtrial", f"cd {ROOT}").replace(
            "python -m", f"{shlex.quote(os.sys.executable)} -m"
        )  # type: ignore[attr-defined]
        told = subprocess.run(
            ["bash", "-c", words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        ).stdout
        return told.replace(b"\n", b"\r\n")  # as a terminal does

    def bring(file: str, *, source: str, target: str, down: bool) -> None:
        assert down
        shutil.copy(source, target)

    monkeypatch.setattr(ray.autoscaler.sdk, "run_on_cluster", run)
    monkeypatch.setattr(ray.autoscaler.sdk, "rsync", bring)
    return ran


class Client:
    """Ray's job client, as far as it is used here."""

    _server_ray_version = ray.__version__

    def __init__(self, address: str = "", *, status: str = "SUCCEEDED", code: int = 0) -> None:
        self.status, self.code, self.sent, self.files = status, code, dict[str, Any](), set[str]()

    def list_jobs(self) -> list[Any]:
        return [
            SimpleNamespace(submission_id=each)
            for each in ("quickstart-smoke-1", "quickstart-9", None)
        ]

    def submit_job(self, **values: Any) -> str:
        self.sent = values
        folder = Path(values["runtime_env"]["working_dir"])
        self.files = {
            path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
        }
        return str(values["submission_id"])

    async def tail_job_logs(self, submission: str) -> Any:
        for line in ("epoch 1\n", "epoch 2\n"):
            yield line

    def get_job_info(self, submission: str) -> Any:
        return SimpleNamespace(
            status=self.status, message="it said why", driver_exit_code=self.code
        )


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    """A cluster that is up, without one."""
    fake = Client()

    @contextmanager
    def tunnel(head: ClusterHead) -> Iterator[str]:
        yield "http://127.0.0.1:1"

    monkeypatch.setattr(ClusterHead, "_tunnel", tunnel)
    monkeypatch.setattr(ray.job_submission, "JobSubmissionClient", lambda address: fake)
    return fake


def invoke(*words: str) -> Any:
    return CliRunner().invoke(app, words)


def test_a_study_is_sent_with_its_code_and_an_id_of_its_own(cluster: Path, client: Client) -> None:
    Path("mylosses.py").write_text("LOSS = 1\n")
    Path(".env").write_text("PASSWORD=1\n")
    done = invoke("submit", "quickstart", "--smoke", "--cluster", str(cluster), "--set", "seed=3")
    assert done.exit_code == 0, done.output
    assert client.sent["submission_id"] == "quickstart-smoke-2"
    words = shlex.split(client.sent["entrypoint"])
    assert words == [
        "python",
        "-m",
        "study",
        "run",
        "quickstart",
        "--smoke",
        "--set",
        f"studies={cluster.parent}/shared",
        "--set",
        "seed=3",
    ]
    assert client.sent["runtime_env"]["env_vars"]["RAY_JOB_STOP_WAIT_TIME_S"] == "60"
    ours = {
        path.relative_to(ROOT).as_posix()
        for layer in ("search_spaces", "trainables", "analysis", "study")
        for path in (ROOT / layer).rglob("*.py")
    }
    assert ours | {"mylosses.py"} <= client.files
    assert not [
        path
        for path in client.files
        if path.startswith((".env", "token", "tests")) or "__pycache__" in path
    ]
    for verb in (
        "status quickstart-smoke --watch",
        "stop quickstart-smoke",
        "submit quickstart-smoke --resume",
        "report quickstart-smoke",
    ):
        assert f"{verb} --cluster {cluster}" in done.output


def test_every_command_that_it_prints_is_one_that_the_command_line_takes(
    cluster: Path, client: Client
) -> None:
    told = invoke("submit", "quickstart", "--smoke", "--cluster", str(cluster)).output
    commands = re.findall(r"fairtrial (\w+) (.*)", told)
    assert {verb for verb, _ in commands} == {"status", "stop", "submit", "report"}
    for verb, rest in commands:
        shown = re.sub(r"\x1b\[[0-9;]*m", "", invoke(verb, "--help").output)
        assert all(flag in shown for flag in rest.split() if flag.startswith("--"))


def test_a_yaml_file_goes_along(cluster: Path, client: Client) -> None:
    folder = Path("configs")
    folder.mkdir()
    (folder / "mine.yaml").write_text(
        invoke("config", "show", "quickstart", "--name", "mine").output
    )
    assert invoke("submit", "configs/mine.yaml", "--cluster", str(cluster)).exit_code == 0
    assert "mine.yaml" in client.files
    assert client.sent["submission_id"] == "mine-1"
    assert shlex.split(client.sent["entrypoint"])[4] == "mine.yaml"


def test_a_study_that_is_resumed_needs_only_its_name(cluster: Path, client: Client) -> None:
    assert (
        invoke(
            "submit", "some-study", "--resume", "--new-code", "--cluster", str(cluster)
        ).exit_code
        == 0
    )
    assert shlex.split(client.sent["entrypoint"])[4:] == [
        "some-study",
        "--set",
        f"studies={cluster.parent}/shared",
        "--resume",
        "--new-code",
    ]


def test_gpus_are_asked_for_where_their_nodes_come_later(cluster: Path) -> None:
    aws = ClusterHead(ROOT / "cluster.yaml")
    assert "gpus_per_worker=1" in make_job(aws, "quickstart", [], **PLAIN).words
    chosen = make_job(aws, "quickstart", ["gpus_per_worker=0.5"], **PLAIN).words
    assert [word for word in chosen if "gpus_per" in word] == ["gpus_per_worker=0.5"]
    assert not [
        word
        for word in make_job(ClusterHead(cluster), "quickstart", [], **PLAIN).words
        if "gpus_per" in word
    ]


def test_images_that_only_the_cluster_has_are_no_error_here_but_the_rest_is_checked(
    cluster: Path,
) -> None:
    sets = ["dataset=image_folder", "data_root=/only/there"]
    words = make_job(ClusterHead(cluster), "quickstart", sets, **PLAIN).words
    assert words[-4:] == ("--set", sets[0], "--set", sets[1])
    with pytest.raises(ValueError, match="Unknown loss 'tripet'"):
        make_job(ClusterHead(cluster), "quickstart", [*sets, "losses=tripet"], **PLAIN)


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://me:hush@db/mlflow",
        "https://me:hush@mlflow",
        "postgresql://me@db/x?password=hush",
    ],
)
@pytest.mark.parametrize("file", [False, True])
def test_a_password_is_not_sent(cluster: Path, client: Client, uri: str, file: bool) -> None:
    Path("mine.yaml").write_text(f"preset: quickstart\ntracking_uri: {uri}\n")
    words = ["mine.yaml"] if file else ["quickstart", "--smoke", "--set", f"tracking_uri={uri}"]
    done = invoke("submit", *words, "--cluster", str(cluster))
    assert (done.exit_code, "~/.pgpass" in done.stderr, "hush" in done.output) == (2, True, False)
    assert not client.sent


def test_a_user_without_a_password_is_no_secret(cluster: Path) -> None:
    uri = "tracking_uri=postgresql://me@db/mlflow"
    assert uri in make_job(ClusterHead(cluster), "quickstart", [uri], **PLAIN).words


def test_attempts_are_counted_by_the_whole_name() -> None:
    assert next_attempt("a", []) == 1
    assert next_attempt("a", ["a-1", "a-b-7", None, "xa-9", "a-3"]) == 4
    assert next_attempt("a.b", ["acb-5"]) == 1


@pytest.mark.parametrize(("status", "code"), [("SUCCEEDED", 0), ("FAILED", 3)])
def test_following_shows_the_log_and_ends_as_the_study_does(
    cluster: Path, client: Client, status: str, code: int
) -> None:
    client.status, client.code = status, code
    done = invoke("submit", "quickstart", "--smoke", "--follow", "--cluster", str(cluster))
    assert "epoch 1\nepoch 2\n" in done.output
    assert done.exit_code == code


def test_a_log_that_breaks_off_is_no_end_of_the_study(
    cluster: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaks(submission: str) -> Any:
        yield "epoch 1\n"
        raise RuntimeError("WebSocket connection closed unexpectedly with close code 1006")

    monkeypatch.setattr(client, "tail_job_logs", breaks)
    done = invoke("submit", "quickstart", "--smoke", "--follow", "--cluster", str(cluster))
    assert done.exit_code == 4
    assert "but the study keeps running: `" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_job_that_is_not_taken_is_one_sentence(
    cluster: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**values: Any) -> str:
        raise RuntimeError("Request failed with status code 500: the disk is full")

    monkeypatch.setattr(client, "submit_job", refuse)
    done = invoke("submit", "quickstart", "--smoke", "--cluster", str(cluster))
    assert (done.exit_code, len(done.stderr.splitlines())) == (4, 1)
    assert (
        "refused the job: Request failed with status code 500: the disk is full; try again."
        in done.stderr
    )


def test_paths_with_spaces_are_printed_as_they_must_be_typed(cluster: Path, client: Client) -> None:
    file = cluster.rename(cluster.parent / "my cluster.yaml")
    told = invoke("submit", "quickstart", "--smoke", "--cluster", str(file)).output
    commands = [
        shlex.split(line)[1:]
        for line in told.splitlines()
        if "--cluster" in line or "ray exec" in line
    ]
    assert len(commands) == 5
    assert all(str(file) in words for words in commands)


@pytest.mark.parametrize("number", ["SIGTERM", "SIGHUP"])
def test_the_tunnel_ends_with_us(
    cluster: Path, monkeypatch: pytest.MonkeyPatch, number: str
) -> None:
    begun: list[subprocess.Popen[bytes]] = []

    def begin(command: list[str], **options: Any) -> Any:
        begun.append(real(["sleep", "600"], start_new_session=True))
        return begun[0]

    real = subprocess.Popen
    monkeypatch.setattr(study.cluster.head, "_answers", lambda port: True)
    monkeypatch.setattr(study.cluster.head.subprocess, "Popen", begin)
    with pytest.raises(SystemExit) as ended, ClusterHead(cluster)._tunnel():
        signal.raise_signal(getattr(signal, number))
    assert ended.value.code == 128 + getattr(signal, number)
    assert begun[0].poll() is not None


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (
            lambda file, client: (file.parent / "token").unlink(),
            "`ray get-auth-token --generate` makes one",
        ),
        (
            lambda file, client: setattr(client, "_server_ray_version", "2.49.0"),
            "2.49.0 on the cluster; `ray up",
        ),
        (lambda file, client: file.unlink(), "There is no cluster file"),
        (lambda file, client: file.write_text("name: quickstart\n"), "must be a cluster file"),
    ],
)
def test_what_is_missing_is_one_sentence(
    cluster: Path, client: Client, spoil: Any, sentence: str
) -> None:
    spoil(cluster, client)
    done = invoke("submit", "quickstart", "--smoke", "--cluster", str(cluster))
    assert done.exit_code in (2, 4)
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not client.sent


def test_a_bad_study_is_refused_before_anything_is_sent(cluster: Path, client: Client) -> None:
    done = invoke("submit", "quickstat", "--cluster", str(cluster))
    assert done.exit_code == 2
    assert "Did you mean 'quickstart'?" in done.stderr
    assert not client.sent


@pytest.mark.parametrize("words", [["submit", "quickstart"], ["status"], ["report"]])
def test_a_cluster_that_is_not_up_is_one_sentence(cluster: Path, words: list[str]) -> None:
    """Ray itself is asked: nobody is at this address, and it knows."""
    done = invoke(*words, "--cluster", str(cluster))
    assert done.exit_code == 4, done.output
    assert re.fullmatch(
        r"fairtrial: The cluster of \S+ does not answer \(.+\); `ray up \S+` starts it, but .+\.",
        done.stderr.strip(),
    ), done.stderr


def begun(config: MakeConfig, cluster: Path) -> None:
    """A study in the shared folder that has begun and is not driven any more."""
    folder = cluster.parent / "shared" / "one"
    folder.mkdir(parents=True)
    ledger = Ledger(folder)
    ledger.append(study_started(total=5))
    ledger.close()


def test_status_is_that_of_the_shared_folder(
    config: MakeConfig, cluster: Path, here: list[str]
) -> None:
    begun(config, cluster)
    done = invoke("status", "one", "--cluster", str(cluster))
    assert done.exit_code == 0, done.output
    assert "one: interrupted, 0 of 5 trials ended" in done.stdout
    assert f"submit one --resume --cluster {cluster}   resumes it" in done.stdout
    assert "fairtrial run" not in done.stdout
    assert "Fetched IP" not in done.stdout
    assert "fairtrial-ended" not in done.stdout
    assert "\r" not in done.stdout
    told = invoke("status", "one", "--json", "--cluster", str(cluster)).stdout
    assert yaml.safe_load(told)["total"] == 5


def test_watching_shows_it_as_it_comes(cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(
        ray.autoscaler.sdk, "run_on_cluster", lambda file, **options: asked.append(options)
    )
    assert invoke("status", "one", "--watch", "--cluster", str(cluster)).exit_code == 0
    assert asked == [
        {
            "cmd": (
                f"cd ~/fairtrial && python -m study status one --watch --studies "
                f"{cluster.parent}/shared"
            )
        }
    ]


@pytest.fixture
def up(cluster: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A head that is up, as far as Ray's own files know. The ssh that would reach it, to be
    written.
    """
    about = yaml.safe_load(cluster.read_text())
    tags = {TAG_RAY_NODE_KIND: NODE_KIND_HEAD, TAG_RAY_NODE_STATUS: STATUS_UP_TO_DATE}
    LocalNodeProvider(about["provider"], about["cluster_name"]).create_node({}, tags, 1)
    ssh = cluster.parent / "bin" / "ssh"
    ssh.parent.mkdir()
    monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
    yield ssh
    for path in (get_state_path(about["cluster_name"]), get_lock_path(about["cluster_name"])):
        Path(path).unlink()


@pytest.mark.parametrize("code", [0, 2, 130, 255])
def test_watching_ends_as_what_it_watches_and_only_a_lost_connection_is_one(
    cluster: Path, up: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Ray's own way to ssh; 255 is what ssh says of itself."""
    up.write_text(f"#!/bin/sh\nexit {code}\n")
    up.chmod(0o755)
    with (
        open(os.devnull) as nothing,
        pytest.raises(PreflightError, match="does not answer") if code == 255 else nullcontext(),
    ):
        monkeypatch.setattr(sys, "stdin", nothing)
        assert ClusterHead(cluster).watch(["status", "one", "--watch"]) == code


def test_what_fails_there_fails_here_with_the_same_code(
    config: MakeConfig, cluster: Path, here: list[str]
) -> None:
    begun(config, cluster)
    done = invoke("stop", "one", "--cluster", str(cluster))
    assert done.exit_code == 2
    assert "The study 'one' is not running: it is interrupted." in done.stdout
    assert invoke("status", "two", "--cluster", str(cluster)).exit_code == 2


def test_names_are_no_commands(config: MakeConfig, cluster: Path, here: list[str]) -> None:
    begun(config, cluster)
    done = invoke("status", "x; touch owned", "--cluster", str(cluster))
    assert done.exit_code == 2
    assert "x; touch owned" in shlex.split(here[0])
    assert not list(ROOT.glob("owned"))


def test_the_page_of_a_report_comes_along(cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = cluster.parent / "shared" / "one" / "report.html"
    page.parent.mkdir(parents=True)
    page.write_text("<html>")
    asked: list[list[str]] = []

    def run(head: ClusterHead, words: list[str]) -> tuple[int, str]:
        asked.append(words)
        return 0, f"1  triplet\n\n{page}\n" if "--print-path" in words else "[]\n"

    monkeypatch.setattr(ClusterHead, "run", run)
    monkeypatch.setattr(
        ray.autoscaler.sdk,
        "rsync",
        lambda file, *, source, target, down: shutil.copy(source, target),
    )
    done = invoke("report", "one", "--cluster", str(cluster))
    assert done.exit_code == 0
    assert Path("one-report.html").read_text() == "<html>"
    assert done.stdout == f"1  triplet\n\nReport   {Path('one-report.html').absolute()}\n"
    assert invoke("report", "one", "--json", "--cluster", str(cluster)).stdout == "[]\n"
    assert ["--print-path" in words for words in asked] == [True, False]


def test_a_head_that_breaks_off_is_no_success(
    cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray.autoscaler.sdk, "run_on_cluster", lambda file, **options: b"half a ta")
    with pytest.raises(PreflightError, match="disconnected: half a ta"):
        ClusterHead(cluster).run(["status"])


def test_without_a_cluster_file_the_verbs_look_here(config: MakeConfig, cluster: Path) -> None:
    begun(config, cluster)
    done = invoke("status", "one", "--studies", str(cluster.parent / "shared"))
    assert "one: interrupted" in done.stdout


def test_the_token_here_may_be_another(
    cluster: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ray.exceptions import AuthenticationError

    def refuse(address: str) -> None:
        raise AuthenticationError("no")

    monkeypatch.setattr(ray.job_submission, "JobSubmissionClient", refuse)
    done = invoke("submit", "quickstart", "--smoke", "--cluster", str(cluster))
    assert done.exit_code == 4
    assert "The token here is not the one of" in done.stderr


def test_the_bundle_is_gone_afterwards(cluster: Path) -> None:
    with bundle(make_job(ClusterHead(cluster), "quickstart", [], **PLAIN)) as folder:
        assert (folder / "study" / "__main__.py").exists()
    assert not folder.exists()
    assert study.cluster.head.CODE == "~/fairtrial"

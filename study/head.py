"""The head node of a cluster, as its cluster file describes it: commands and files by ssh, jobs through a tunnel."""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from study.preflight import PreflightError
from study.sources import read_yaml

CODE = "~/fairtrial"  # where cluster.yaml puts it on every node
STUDIES = "/mnt/fairtrial/studies"
LOCAL = "127.0.0.1"
PATIENCE = 60.0  # seconds for a tunnel to open
ENDED = "fairtrial-ended:"  # ssh through Ray does not hand on exit codes


@dataclass(frozen=True)
class Head:
    """The cluster must be up: PreflightError says how to start it. file: what `ray up` was given."""

    file: Path

    @cached_property
    def about(self) -> dict[str, Any]:
        found = read_yaml(self.file)
        if not {"cluster_name", "provider"} <= found.keys():
            raise ValueError(f"{self.file} must be a cluster file with cluster_name and provider, like cluster.yaml.")
        return found

    @property
    def studies(self) -> str:
        """The folder that all nodes share."""
        return str((self.about.get("metadata") or {}).get("studies", STUDIES))

    @property
    def gpu_nodes_come_later(self) -> bool:
        """Before the first one is up, a study cannot see that there will be GPUs."""
        kinds = (self.about.get("available_node_types") or {}).values()
        return any((kind.get("resources") or {}).get("GPU") for kind in kinds)

    def run(self, words: Sequence[str]) -> tuple[int, str]:
        """Fair Trial's command line on the head: its exit code, and all that it printed."""
        from ray.autoscaler.sdk import run_on_cluster

        columns = shutil.get_terminal_size((140, 24)).columns
        plain = "" if sys.stdout.isatty() else " 2>&1 | cat"  # there is a terminal there, though there may be none here
        command = f"cd {CODE} && COLUMNS={columns} python -m study {shlex.join(words)}{plain}; echo {ENDED}${{PIPESTATUS[0]}}"
        with self._reached():
            told = run_on_cluster(str(self.file), cmd=command, with_output=True)
        text = (told.decode() if isinstance(told, bytes) else str(told)).replace("\r\n", "\n")
        found = re.search(rf"^{ENDED}(\d+)$", text, flags=re.MULTILINE)
        if not found:
            raise PreflightError(f"The head of {self.file} broke off: {last_line(text)}; try again.")
        return int(found[1]), text[: found.start()]

    def watch(self, words: Sequence[str]) -> int:
        """The same, on this terminal as it comes. Its exit code."""
        from ray.autoscaler.sdk import run_on_cluster

        with self._reached(quiet=False):
            try:
                run_on_cluster(str(self.file), cmd=f"cd {CODE} && python -m study {shlex.join(words)}")
            except Exception as error:
                if code := _exit_code(error):
                    return code
                raise
        return 0

    def fetch(self, source: str, target: Path) -> None:
        """A file of the head, to here."""
        from ray.autoscaler.sdk import rsync

        with self._reached():
            rsync(str(self.file), source=source, target=str(target), down=True)

    @contextmanager
    def _reached(self, *, quiet: bool = True) -> Iterator[None]:
        """Ray tells of its steps; nobody asked. What goes wrong is one sentence."""
        self.about  # noqa: B018  a file that is no cluster file says so first
        logging.disable(logging.INFO)
        try:
            with open(os.devnull, "w") as nobody, redirect_stdout(nobody) if quiet else nullcontext():
                yield
        except (PreflightError, ValueError, KeyboardInterrupt):
            raise
        except ModuleNotFoundError as error:
            raise PreflightError(f"This cluster's provider needs {error.name} here, too; `pip install {error.name}` brings it.") from None
        except Exception as error:  # Ray's own, click's, ssh's
            raise PreflightError(self._silent(error)) from None
        finally:
            logging.disable(logging.NOTSET)

    def _silent(self, reason: object) -> str:
        return (
            f"The cluster of {self.file} does not answer ({last_line(str(reason))}); `ray up {self.file}` starts it, but would end what "
            "runs there: if something may, docs/cluster.md tells how to reach it again."
        )

    @contextmanager
    def jobs(self) -> Iterator[Any]:
        """Ray's client of the job API, through a tunnel, with the token."""
        self.about  # noqa: B018
        _check_token()
        os.environ.setdefault("RAY_AUTH_MODE", "token")  # before Ray is imported
        with self._tunnel() as address:
            from ray.exceptions import AuthenticationError
            from ray.job_submission import JobSubmissionClient

            logging.disable(logging.INFO)  # of uploads and sockets
            try:
                yield self._client(JobSubmissionClient, address, AuthenticationError)
            except (RuntimeError, ConnectionError) as error:  # what Ray says of a job that it does not take
                raise PreflightError(f"The head of {self.file} did not take it: {last_line(str(error))}; try again.") from None
            finally:
                logging.disable(logging.NOTSET)

    def _client(self, kind: Any, address: str, unknown: type[Exception]) -> Any:
        try:
            client = kind(address)
        except unknown:
            raise PreflightError(
                f"The token here is not the one of {self.file}'s cluster; `ray up {self.file}` puts it there, and ends what runs."
            ) from None
        except (ConnectionError, OSError, RuntimeError) as error:
            raise PreflightError(self._silent(error)) from None
        _check_version(str(client._server_ray_version), self.file)  # not in its public interface
        return client

    @contextmanager
    def _tunnel(self) -> Iterator[str]:
        """The dashboard of the head, which listens there on its own loopback only, on ours."""
        port = _free_port()
        command = [sys.executable, "-m", "ray.scripts.scripts", "dashboard", str(self.file), "--port", str(port)]
        told = subprocess.PIPE
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
        for number in before:  # else it would outlive us: it is in a session of its own
            signal.signal(number, lambda number, frame: sys.exit(128 + number))
        tunnel = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=told, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            deadline = time.monotonic() + PATIENCE
            while not _answers(port):
                if tunnel.poll() is not None:
                    raise PreflightError(self._silent((tunnel.stdout.read() if tunnel.stdout else b"").decode()))
                if time.monotonic() > deadline:
                    raise PreflightError(self._silent(f"no tunnel within {PATIENCE:.0f} s"))
                time.sleep(0.2)
            yield f"http://{LOCAL}:{port}"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(tunnel.pid, signal.SIGTERM)
            tunnel.wait()
            for number, handler in before.items():
                signal.signal(number, handler)


def _exit_code(error: Exception) -> int:
    """Of what ssh ran there; 0 if it ran nothing: 255 is ssh's own word for that. Ray hides the code behind an error of its own."""
    code = getattr(error.__context__, "returncode", 255)
    return 0 if code == 255 or code < 0 else int(code)


def _check_token() -> None:
    path = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")
    if "RAY_AUTH_TOKEN" not in os.environ and not path.exists():
        raise PreflightError(
            f"A cluster takes jobs with its token only, but there is no {path}; `ray get-auth-token --generate` makes one, "
            "and `ray up` puts it on every node."
        )


def _check_version(there: str, file: Path) -> None:
    if there != version("ray"):
        raise PreflightError(
            f"Ray must be the same here and there, but it is {version('ray')} here and {there} on the cluster; "
            f"`ray up {file}` brings its nodes to requirements.lock, and ends what runs."
        )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOCAL, 0))
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((LOCAL, port)) == 0


def last_line(text: str) -> str:
    """Without colours."""
    lines = [line.strip() for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else "it said nothing"

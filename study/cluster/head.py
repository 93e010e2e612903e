"""Reach the head node of a cluster: commands and files by ssh, jobs through a tunnel."""

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

from study.cluster.ray_token import check_token
from study.config.sources import read_yaml
from study.errors import PreflightError

CODE = "~/fairtrial"  # where cluster.yaml puts it on every node
STUDIES = "/mnt/fairtrial/studies"
LOCAL = "127.0.0.1"
TUNNEL_SECONDS = 60.0  # for a tunnel to open
ENDED = "fairtrial-ended:"  # marks the exit code, which ssh through Ray does not return


@dataclass(frozen=True)
class ClusterHead:
    """Reach the head node of a cluster that is up; a PreflightError says how to start it.

    file: the cluster file that `ray up` took.
    """

    file: Path

    @cached_property
    def about(self) -> dict[str, Any]:
        """Return what the cluster file says."""
        if not self.file.exists():
            raise ValueError(
                f"There is no cluster file {self.file}; cluster.yaml in Fair Trial's own folder is "
                f"one to start from."
            )
        found = read_yaml(self.file)
        if not {"cluster_name", "provider"} <= found.keys():
            raise ValueError(
                f"{self.file} must be a cluster file with cluster_name and provider, like "
                f"cluster.yaml."
            )
        return found

    @property
    def studies(self) -> str:
        """Return the folder that all nodes share."""
        return str((self.about.get("metadata") or {}).get("studies", STUDIES))

    @property
    def gpu_nodes_come_later(self) -> bool:
        """Return whether nodes have GPUs: before the first one is up, a study cannot see that."""
        types = (self.about.get("available_node_types") or {}).values()
        return any((each.get("resources") or {}).get("GPU") for each in types)

    def run(self, words: Sequence[str]) -> tuple[int, str]:
        """Run Fair Trial's command line on the head; return its exit code and its output."""
        from ray.autoscaler.sdk import run_on_cluster

        columns = shutil.get_terminal_size((140, 24)).columns
        # The head has a terminal even if there is none here.
        plain = "" if sys.stdout.isatty() else " 2>&1 | cat"
        command = (
            f"cd {CODE} && COLUMNS={columns} python -m study {shlex.join(words)}{plain}; "
            f"echo {ENDED}${{PIPESTATUS[0]}}"
        )
        with self._reached():
            printed = run_on_cluster(str(self.file), cmd=command, with_output=True)
        text = printed.decode() if isinstance(printed, bytes) else str(printed)
        text = text.replace("\r\n", "\n")
        found = re.search(rf"^{ENDED}(\d+)$", text, flags=re.MULTILINE)
        if not found:
            raise PreflightError(
                f"The head of {self.file} disconnected: {last_line(text)}; try again."
            )
        return int(found[1]), text[: found.start()]

    def watch(self, words: Sequence[str]) -> int:
        """Run it with its output on this terminal as it comes; return its exit code."""
        from ray.autoscaler.sdk import run_on_cluster

        with self._reached(quiet=False):
            try:
                run_on_cluster(
                    str(self.file), cmd=f"cd {CODE} && python -m study {shlex.join(words)}"
                )
            except Exception as error:
                if code := _exit_code(error):
                    return code
                raise
        return 0

    def fetch(self, source: str, target: Path) -> None:
        """Copy a file of the head to this machine."""
        from ray.autoscaler.sdk import rsync

        with self._reached():
            rsync(str(self.file), source=source, target=str(target), down=True)

    @contextmanager
    def _reached(self, *, quiet: bool = True) -> Iterator[None]:
        """Silence Ray, which prints its steps, and turn any failure into one sentence."""
        self.about  # noqa: B018  refuses a file that is not a cluster file
        logging.disable(logging.INFO)
        try:
            with (
                open(os.devnull, "w") as null,
                redirect_stdout(null) if quiet else nullcontext(),
            ):
                yield
        except (PreflightError, ValueError, KeyboardInterrupt):
            raise
        except ModuleNotFoundError as error:
            raise PreflightError(
                f"This cluster's provider needs {error.name} on this machine too; `pip install "
                f"{error.name}` installs it."
            ) from None
        except Exception as error:  # Ray's own, click's, ssh's
            raise PreflightError(self._unreachable(error)) from None
        finally:
            logging.disable(logging.NOTSET)

    def _unreachable(self, reason: object) -> str:
        return (
            f"The cluster of {self.file} does not answer ({last_line(str(reason))}); `ray up "
            f"{self.file}` starts it, but ends what runs there: if something may run, "
            f"docs/cluster.md says how to reach it again."
        )

    @contextmanager
    def jobs(self) -> Iterator[Any]:
        """Yield Ray's client of the job API, through a tunnel and with the token."""
        self.about  # noqa: B018
        check_token()
        os.environ.setdefault("RAY_AUTH_MODE", "token")  # before Ray is imported
        with self._tunnel() as address:
            from ray.exceptions import AuthenticationError
            from ray.job_submission import JobSubmissionClient

            logging.disable(logging.INFO)  # of uploads and sockets
            try:
                yield self._client(JobSubmissionClient, address, AuthenticationError)
            except (RuntimeError, ConnectionError) as error:  # Ray refuses the job
                raise PreflightError(
                    f"The head of {self.file} refused the job: {last_line(str(error))}; try again."
                ) from None
            finally:
                logging.disable(logging.NOTSET)

    def _client(self, kind: Any, address: str, unknown: type[Exception]) -> Any:
        try:
            client = kind(address)
        except unknown:
            raise PreflightError(
                f"The token here is not the one of {self.file}'s cluster; `ray up {self.file}` "
                f"puts it there, and ends what runs."
            ) from None
        except (ConnectionError, OSError, RuntimeError) as error:
            raise PreflightError(self._unreachable(error)) from None
        _check_version(str(client._server_ray_version), self.file)  # not in its public interface
        return client

    @contextmanager
    def _tunnel(self) -> Iterator[str]:
        """Open the dashboard of the head, which listens on its own loopback only, on ours."""
        port = _free_port()
        command = [
            sys.executable,
            "-m",
            "ray.scripts.scripts",
            "dashboard",
            str(self.file),
            "--port",
            str(port),
        ]
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
        for number in before:  # else it would outlive us: it has its own session
            signal.signal(number, lambda number, frame: sys.exit(128 + number))
        tunnel = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            deadline = time.monotonic() + TUNNEL_SECONDS
            while not _answers(port):
                if tunnel.poll() is not None:
                    raise PreflightError(
                        self._unreachable((tunnel.stdout.read() if tunnel.stdout else b"").decode())
                    )
                if time.monotonic() > deadline:
                    raise PreflightError(
                        self._unreachable(f"no tunnel within {TUNNEL_SECONDS:.0f} s")
                    )
                time.sleep(0.2)
            yield f"http://{LOCAL}:{port}"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(tunnel.pid, signal.SIGTERM)
            tunnel.wait()
            for number, handler in before.items():
                signal.signal(number, handler)


def _exit_code(error: Exception) -> int:
    """Return the exit code of what ssh ran on the head; 0 if it ran nothing, which ssh reports as
    255. Ray hides the code behind its own error.
    """
    code = getattr(error.__context__, "returncode", 255)
    return 0 if code == 255 or code < 0 else int(code)


def _check_version(there: str, file: Path) -> None:
    if there != version("ray"):
        raise PreflightError(
            f"Ray must have the same version on both sides, but it is {version('ray')} here and "
            f"{there} on the cluster; `ray up {file}` installs requirements.lock on its nodes, and "
            f"ends what runs."
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
    """Return the last line of a text, without colours and without its full stop."""
    lines = [
        line.strip() for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines() if line.strip()
    ]
    return lines[-1].rstrip(".") if lines else "it said nothing"

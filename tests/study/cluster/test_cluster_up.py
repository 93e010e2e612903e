"""cluster.local.yaml from ray up to ray down, by ssh to this machine: a study is submitted, and its
table and page come back.

Needs root, openssh-server and rsync, and a machine without any other Ray: ray up and ray down end
every Ray process on it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import yaml

from tests.conftest import end_local_ray
from tests.support import ROOT
from tests.support.waiting import await_that

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.cluster, pytest.mark.timeout(1200)]
SSHD = Path("/usr/sbin/sshd")
RAY = ("raylet", "gcs_server", "ray::", "monitor.py", "dashboard.py", "log_monitor.py")
DASHBOARD = 8265
HEAD = "127.0.0.1"


def ray_processes() -> list[str]:
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        line = " ".join(process.info["cmdline"] or [])
        if (
            process.info["status"] != psutil.STATUS_ZOMBIE
            and ("/ray/" in line or "ray::" in line)
            and any(name in line for name in RAY)
        ):
            found.append(line[:80])
    return found


@dataclass(frozen=True)
class Laptop:
    """home: where the token of this one is. file: the cluster file."""

    home: Path
    file: Path

    def run(self, *words: str, within: float = 600) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "HOME": str(self.home),
            "PYTHONPATH": str(ROOT),
            "NO_COLOR": "1",
            "COLUMNS": "140",
        }
        for name in (
            "RAY_ADDRESS",
            "RAY_AUTH_MODE",
            "RAY_AUTH_TOKEN",
            "RAY_AUTH_TOKEN_PATH",
            "FAIRTRIAL_DATA",
        ):
            environment.pop(name, None)
        command = [sys.executable, "-m", *words]
        return subprocess.run(
            command,
            cwd=self.home,
            env=environment,
            capture_output=True,
            text=True,
            timeout=within,
            check=False,
        )

    def ray(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run("ray.scripts.scripts", *words)

    def fairtrial(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run("study", *words, "--cluster", str(self.file))


def make_key(path: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Path]:
    """The home of a machine at 127.0.0.1 with sshd and this environment; nobody's real home is
    touched.
    """
    assert SSHD.exists(), "apt-get install openssh-server rsync"
    end_local_ray()
    assert not ray_processes(), (
        "ray up and ray down would end these: run this when no other Ray is on this machine"
    )
    home = tmp_path / "node"
    (home / "fairtrial").mkdir(parents=True)
    (home / "fairtrial" / ".venv").symlink_to(sys.prefix)
    (home / "fairtrial" / ".installed").write_bytes(
        (ROOT / "requirements.lock").read_bytes() + (ROOT / "pyproject.toml").read_bytes()
    )
    (home / ".bashrc").write_text("case $- in *i*) ;; *) return ;; esac\n")
    make_key(tmp_path / "key")
    Path("/run/sshd").mkdir(exist_ok=True)
    (tmp_path / "sshd_config").write_text(
        f"ListenAddress {HEAD}:22\n"
        f"HostKey {make_key(tmp_path / 'host')}\nAuthorizedKeysFile {tmp_path / 'key'}.pub\n"
        f"StrictModes no\nUsePAM no\nPermitRootLogin prohibit-password\nPasswordAuthentication "
        f"no\nPidFile none\nSetEnv HOME={home}\n"
    )
    log = tmp_path / "sshd.log"
    server = subprocess.Popen(
        [str(SSHD), "-D", "-e", "-f", str(tmp_path / "sshd_config")], stderr=log.open("w")
    )
    try:
        # Its own word: another sshd may answer at that port.
        await_that(
            lambda: "Server listening" in log.read_text(),
            lambda: "" if server.poll() is None else log.read_text(),
        )
        yield home
    finally:
        server.terminate()
        server.wait()


@pytest.fixture
def laptop(node: Path, tmp_path: Path) -> Iterator[Laptop]:
    """cluster.local.yaml with this machine filled in, as its comments ask for."""
    home = tmp_path / "laptop"
    (home / ".ray").mkdir(parents=True)
    (home / ".ray" / "auth_token").write_text(os.urandom(32).hex())
    about = yaml.safe_load((ROOT / "cluster.local.yaml").read_text())
    about["cluster_name"] = "fairtrial-test"
    about["provider"] |= {"head_ip": HEAD, "worker_ips": []}
    about["auth"] = {"ssh_user": "root", "ssh_private_key": str(tmp_path / "key")}
    about["metadata"]["studies"] = str(node / "shared" / "studies")
    about["file_mounts"] = {
        there: here if here.startswith("~") else str(ROOT / here)
        for there, here in about["file_mounts"].items()
    }
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump(about))
    laptop = Laptop(home, file)
    yield laptop
    if ray_processes():  # of this test alone: there was none before
        laptop.ray("down", "-y", str(file))
        laptop.ray("stop", "--force")  # where ray up itself broke off, ray down finds nothing


def refused(path: str) -> bool:
    """Without a token; asks until the dashboard answers."""
    codes: list[int] = []

    def answers() -> bool:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{DASHBOARD}{path}", timeout=10
            ) as answer:
                codes.append(answer.status)
        except urllib.error.HTTPError as error:
            codes.append(error.code)
        except OSError:
            return False
        return True

    await_that(answers)
    return codes[-1] in (401, 403)


def test_a_study_on_a_cluster_from_ray_up_to_ray_down(laptop: Laptop, node: Path) -> None:
    up = laptop.ray("up", "-y", "--no-config-cache", str(laptop.file))
    assert up.returncode == 0, up.stdout + up.stderr
    assert (node / ".ray" / "auth_token").stat().st_mode & 0o777 == 0o600
    assert refused("/api/jobs/"), "a job API that takes jobs without the token"
    listening = {
        each.laddr.ip
        for each in psutil.net_connections("tcp")
        if each.status == "LISTEN" and each.laddr.port == DASHBOARD
    }
    assert listening == {HEAD}

    losses = "losses=triplet,contrastive"
    run = laptop.fairtrial(
        "submit", "quickstart", "--smoke", "--name", "far", "--set", losses, "--follow"
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "far-1" in run.stdout
    assert (node / "shared" / "studies" / "far" / "ledger.jsonl").exists()

    status = laptop.fairtrial("status", "far")
    assert "far: finished" in status.stdout, status.stdout + status.stderr
    assert "\x1b" not in status.stdout, "colours, though nobody has a terminal"
    again = laptop.fairtrial(
        "submit", "quickstart", "--smoke", "--name", "far", "--set", losses, "--follow"
    )
    assert again.returncode != 0, "a finished study is not run again"
    assert "The study 'far' is finished" in again.stdout

    report = laptop.fairtrial("report", "far")
    assert report.returncode == 0, report.stdout + report.stderr
    ranked = re.findall(r"^ +[12] +[a-z]+ +(\w+) ", report.stdout, re.M)
    assert sorted(ranked) == ["contrastive", "triplet"], report.stdout
    assert (laptop.home / "far-report.html").stat().st_size > 10_000

    down = laptop.ray("down", "-y", str(laptop.file))
    assert down.returncode == 0, down.stdout + down.stderr
    await_that(lambda: not ray_processes())
    gone = laptop.fairtrial("status", "far")
    assert gone.returncode == 4
    assert "`ray up" in gone.stderr

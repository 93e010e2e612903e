"""The cluster files: valid for Ray, nothing open that need not be, a token on every node, and what
they run on a node does what it says.
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import ray.autoscaler
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

from search_spaces.own import FAIRTRIAL_PACKAGES
from tests.support import ROOT

FILES = ["cluster.yaml", "cluster.local.yaml"]
LOCK, PROJECT = "ray==2.60.0\n", "version = 1\n"


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / name).read_text())
    return found


def starts(about: dict[str, Any]) -> dict[str, str]:
    """head, worker -> its `ray start`."""
    found = {}
    for kind in ("head", "worker"):
        (found[kind],) = [
            line for line in about[f"{kind}_start_ray_commands"] if "ray start" in line
        ]
    return found


@pytest.mark.parametrize("name", FILES)
def test_it_is_valid_by_rays_own_schema(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # file mounts are relative
    schema = json.loads((Path(ray.autoscaler.__file__).parent / "ray-schema.json").read_text())
    jsonschema.validate(read(name), schema)
    validate_config(prepare_config(read(name)))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**read(name), "autoscaler": True}, schema)


@pytest.mark.parametrize("name", FILES)
def test_the_dashboard_stays_on_the_head_and_nothing_more_is_opened(name: str) -> None:
    about = read(name)
    assert "IpPermissions" not in about["provider"].get(
        "security_group", {}
    )  # Ray's own rules: ssh, and all between the nodes
    for kind in about.get("available_node_types", {}).values():
        assert not {"SecurityGroupIds", "NetworkInterfaces"} & kind["node_config"].keys()
    head = starts(about)["head"]
    assert re.search(r"--dashboard-host=127\.0\.0\.1\s", head)
    assert "0.0.0.0" not in (ROOT / name).read_text()
    assert "--ray-client-server-port" not in head
    assert "--disable-usage-stats" in head  # ray up itself would switch them on


@pytest.mark.parametrize("name", FILES)
def test_every_node_gets_the_token_and_sets_its_environment_before_anything_else(name: str) -> None:
    about = read(name)
    assert about["file_mounts"]["~/.ray/auth_token"] == "~/.ray/auth_token"
    assert about["setup_commands"] == [
        f"bash ~/fairtrial/cluster.sh {step}" for step in ("environment", "install")
    ]


@pytest.mark.parametrize("name", FILES)
def test_every_node_gets_the_code_and_the_lock(name: str) -> None:
    mounts = read(name)["file_mounts"]
    needed = {*FAIRTRIAL_PACKAGES, "requirements.lock", "cluster.sh", "pyproject.toml", "README.md"}
    assert {
        target.removeprefix("~/fairtrial/"): source
        for target, source in mounts.items()
        if "fairtrial" in target
    } == {each: each for each in needed}
    assert all((ROOT / each).exists() for each in needed)


@pytest.mark.parametrize("name", FILES)
def test_nodes_end_what_they_ran_before_and_stage_before_they_take_work(name: str) -> None:
    for kind in ("head", "worker"):
        commands = read(name)[f"{kind}_start_ray_commands"]
        assert commands[0] == "ray stop"
        assert commands[-2:-1] == ["bash ~/fairtrial/cluster.sh stage"]
        assert "ray start" in commands[-1]


def test_cluster_yaml_has_nothing_to_fill_in() -> None:
    text = (ROOT / "cluster.yaml").read_text()
    assert "FILL" not in text
    images = {
        kind["node_config"]["ImageId"]
        for kind in read("cluster.yaml")["available_node_types"].values()
    }
    (image,) = images
    assert re.fullmatch(r"resolve:ssm:/aws/service/[a-z0-9_./-]+/latest/ami-id", image)


def test_the_head_on_aws_only_drives_and_workers_are_on_spot() -> None:
    about = read("cluster.yaml")
    kinds = about["available_node_types"]
    head = kinds[about["head_node_type"]]
    assert (head["resources"]["CPU"], head["resources"]["GPU"]) == (0, 0)
    assert "InstanceMarketOptions" not in head["node_config"]
    workers = [kind for name, kind in kinds.items() if name != about["head_node_type"]]
    assert workers
    for kind in workers:
        assert kind["node_config"]["InstanceMarketOptions"] == {"MarketType": "spot"}
        assert kind["resources"]["GPU"] > 0
        assert kind["min_workers"] == 0


def test_every_address_of_ones_own_machines_becomes_a_worker() -> None:
    """Ray's newer autoscaler counts the head towards the workers of its kind, and all machines are
    one kind.
    """
    assert (
        "RAY_enable_autoscaler_v2=0 ray start --head" in starts(read("cluster.local.yaml"))["head"]
    )
    kinds = prepare_config(read("cluster.local.yaml"))["available_node_types"]
    assert [kind["min_workers"] for kind in kinds.values()] == [
        len(read("cluster.local.yaml")["provider"]["worker_ips"])
    ]


def test_the_folder_of_the_head_is_two_comments_away() -> None:
    text = (ROOT / "cluster.local.yaml").read_text()
    about = yaml.safe_load(
        text.replace("head_setup_commands: []\n", "")
        .replace("# head_setup", "head_setup")
        .replace("# - bash", "- bash")
    )
    (share,) = about["head_setup_commands"]
    assert share.split()[2:] == ["share", *about["provider"]["worker_ips"]]
    assert about["worker_start_ray_commands"][1] == "bash ~/fairtrial/cluster.sh mount $RAY_HEAD_IP"


def test_the_folder_of_the_head_is_shared_with_those_who_are_named_and_nobody_else(
    node: Path,
) -> None:
    programs = node / "bin"
    programs.mkdir()
    (programs / "sudo").write_text(
        f'#!/bin/sh\n[ $1 = tee ] && cat >> {node}/exports || echo "$@" >> {node}/told\n'
    )
    (programs / "exportfs").write_text("#!/bin/sh\n")
    for program in programs.iterdir():
        program.chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    assert step(node, "share", PATH=path).returncode == 1
    assert not (node / "exports").exists()
    assert step(node, "share", "10.0.0.2", "172.31.0.0/16", PATH=path).returncode == 0
    rights = "(rw,sync,no_subtree_check)"
    assert (
        node / "exports"
    ).read_text() == f"{node}/shared 10.0.0.2{rights} 172.31.0.0/16{rights}\n"
    (line,) = [line for line in read("cluster.yaml")["head_setup_commands"] if " share " in line]
    assert line.endswith(" share 172.31.0.0/16")


def test_workers_start_from_the_heads_own_image(node: Path) -> None:
    path = f"{node}/bin:{os.environ['PATH']}"
    (node / "bin").mkdir()
    fake = node / "bin" / "curl"
    fake.write_text(
        '#!/bin/sh\ncase "$*" in *api/token) echo t;; *": t "*ami-id) echo ami-123;; esac\n'
    )
    fake.chmod(0o755)
    config = json.dumps(read("cluster.yaml")["available_node_types"])
    (node / "ray_bootstrap_config.yaml").write_text(config)
    for _ in range(2):  # ray up may come again
        assert step(node, "image", PATH=path).returncode == 0
    kinds = json.loads((node / "ray_bootstrap_config.yaml").read_text())
    assert {kind["node_config"]["ImageId"] for kind in kinds.values()} == {"ami-123"}
    assert kinds["gpu"]["node_config"]["InstanceType"] == "g5.2xlarge"
    fake.write_text("#!/bin/sh\n")
    done = step(node, "image", PATH=path)
    assert done.returncode == 1
    assert "write it as ImageId in cluster.yaml" in done.stderr
    assert read("cluster.yaml")["head_setup_commands"][0].startswith(
        "bash ~/fairtrial/cluster.sh image"
    )


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """The home of a node as `ray up` leaves it before its first command, with an environment that
    is installed already.
    """
    code = tmp_path / "fairtrial"
    (code / ".venv" / "bin").mkdir(parents=True)
    (code / "requirements.lock").write_text(LOCK)
    (code / "pyproject.toml").write_text(PROJECT)
    (code / ".installed").write_text(LOCK + PROJECT)
    (code / ".venv" / "bin" / "ray").write_text(
        "#!/bin/sh\necho our ray $RAY_AUTH_MODE $RAY_JOB_STOP_WAIT_TIME_S\n"
    )
    (code / ".venv" / "bin" / "ray").chmod(0o755)
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("a token")
    (tmp_path / ".ray" / "auth_token").chmod(0o644)  # as Ray writes it
    (tmp_path / ".bashrc").write_text(
        'case $- in *i*) ;; *) return ;; esac\nexport GREETING="hello"\n'
    )  # Debian's guard
    return tmp_path


def sh(node: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "HOME": str(node),
        "PATH": os.environ["PATH"],
        "FAIRTRIAL_SHARED": str(node / "shared"),
        **more,
    }
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


def step(node: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return sh(node, "bash", str(ROOT / "cluster.sh"), *words, **more)


def by_ssh(node: Path, command: str) -> str:
    """bash as sshd starts it: neither interactive nor a login shell, but it reads ~/.bashrc because
    these two say so.
    """
    return sh(node, "bash", "-c", command, SSH_CLIENT="127.0.0.1 1 22", SHLVL="0").stdout.strip()


def test_commands_by_ssh_find_the_environment_above_the_guard_of_bashrc(node: Path) -> None:
    assert "our ray" not in by_ssh(node, "ray")
    for _ in range(2):  # ray up may come again
        assert step(node, "environment").returncode == 0
    assert by_ssh(node, "ray") == "our ray token 60"
    lines = (node / ".bashrc").read_text().splitlines()
    assert lines[0] == ". ~/.fairtrial.sh"
    assert lines.count(lines[0]) == 1
    assert sh(node, "bash", "-i", "-c", "ray; echo $GREETING").stdout.split("\n")[:2] == [
        "our ray token 60",
        "hello",
    ]


def test_the_token_is_for_its_owner_alone(node: Path) -> None:
    step(node, "environment")
    assert stat.S_IMODE((node / ".ray" / "auth_token").stat().st_mode) == 0o600
    (node / ".ray" / "auth_token").unlink()
    done = step(node, "environment")
    assert done.returncode == 1
    assert "ray get-auth-token --generate" in done.stderr


@pytest.mark.parametrize("name", ["requirements.lock", "pyproject.toml"])
def test_versions_are_installed_when_the_lock_or_ours_is_new_and_only_then(
    node: Path, name: str
) -> None:
    told = node / "told"
    (node / ".uv" / "bin").mkdir(parents=True)
    (node / ".uv" / "bin" / "uv").write_text(f'#!/bin/sh\necho "$VIRTUAL_ENV $@" >> {told}\n')
    (node / ".uv" / "bin" / "uv").chmod(0o755)
    assert step(node, "install").returncode == 0
    assert not told.exists()
    (node / "fairtrial" / name).write_text("another\n")
    assert step(node, "install").returncode == 0
    calls = told.read_text().splitlines()
    assert [call.split()[0:2] for call in calls[-2:]] == [
        [str(node / "fairtrial" / ".venv"), "pip"]
    ] * 2
    assert "--require-hashes -r" in calls[1]
    assert "--no-deps" in calls[2]
    told.unlink()
    assert step(node, "install").returncode == 0
    assert not told.exists()


def test_archives_in_the_shared_folder_are_prepared_once_per_node(node: Path) -> None:
    python = node / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\necho "$@" >> {node}/told\n')
    python.chmod(0o755)
    path = f"{python.parent}:{os.environ['PATH']}"
    assert step(node, "stage", PATH=path).returncode == 0, "no archives, nothing to do"
    archive = node / "shared" / "data" / "cub200.tar.gz"
    archive.parent.mkdir(parents=True)
    archive.touch()
    for _ in range(2):
        assert step(node, "stage", PATH=path).returncode == 0
    assert (node / "told").read_text().splitlines() == [
        f"-m study data prepare cub200 --from {archive}"
    ]


def test_an_archive_that_is_none_keeps_no_node_from_starting(node: Path) -> None:
    python = node / "bin" / "python"
    python.parent.mkdir()
    python.write_text('#!/bin/sh\n[ "$5" != cars196 ]\n')
    python.chmod(0o755)
    (node / "shared" / "data").mkdir(parents=True)
    for name in ("cars196.tgz", "cub200.tgz"):
        (node / "shared" / "data" / name).touch()
    staged = step(
        node,
        "stage",
        PATH=f"{python.parent}:{os.environ['PATH']}",
        FAIRTRIAL_DATA=str(node / "images"),
    )
    assert (staged.returncode, "cars196.tgz was passed over" in staged.stderr) == (0, True)
    assert [path.name for path in (node / "images" / "staged").iterdir()] == ["cub200"]


def test_an_unknown_step_is_refused(node: Path) -> None:
    done = step(node, "everything")
    assert done.returncode == 2
    assert "environment" in done.stderr

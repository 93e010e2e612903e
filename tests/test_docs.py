"""What the pages of docs/ tell people to type is what there is."""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import ray
import yaml
from typer.testing import CliRunner

from study.__main__ import app
from study.presets import PRESETS

ROOT = Path(__file__).parent.parent
CLUSTER = (ROOT / "docs" / "cluster.md").read_text()
LINES = [
    line for line in CLUSTER.splitlines() if line.startswith("    ") or "`uv run fairtrial" in line
]


def commands(program: str) -> list[str]:
    found = [match for line in LINES for match in re.findall(rf"uv run {program} ([^`#]+)", line)]
    assert len(found) > 5
    return [each.strip() for each in found]


def block(kind: str) -> str:
    (found,) = re.findall(rf"```{kind}\n(.*?)```", CLUSTER, flags=re.DOTALL)
    return str(found)


@pytest.mark.parametrize("command", commands("fairtrial"))
def test_every_command_of_ours_is_one_the_command_line_takes(command: str) -> None:
    words = shlex.split(command)
    shown = CliRunner().invoke(app, [words[0], "--help"])
    assert shown.exit_code == 0
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown.stdout)
    assert all(word in text for word in words if word.startswith("--"))
    assert "--cluster" in words


@pytest.mark.filterwarnings("ignore")  # of Ray's own imports
@pytest.mark.parametrize("command", commands("ray"))
def test_every_command_of_rays_is_one_that_ray_takes(command: str) -> None:
    from ray.dashboard.modules.job.cli import job_cli_group
    from ray.scripts.scripts import cli

    words = shlex.split(command.split(" -- ")[0].split(" && chmod")[0])
    group: Any = cli
    if words[0] == "job":
        group, words = job_cli_group, words[1:]
    known = {
        option
        for param in group.commands[words[0]].params
        for option in (*param.opts, *param.secondary_opts)
    }
    assert {word for word in words if re.match(r"--?[a-z]", word)} <= known


def test_the_script_that_it_sends_is_there() -> None:
    (name,) = re.findall(r"python -m study\.scripts\.(\w+)", CLUSTER)
    assert name in PRESETS


def shape(required: str = "", **fields: Any) -> dict[str, Any]:
    """A JSON schema of an object with these fields and no other."""
    return {
        "type": "object",
        "properties": fields,
        "required": required.split(),
        "additionalProperties": False,
    }


TEXT, NUMBER, TRUTH = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
TEXTS = {"type": "object", "additionalProperties": TEXT}
AMOUNTS = {"type": "object", "additionalProperties": {"type": ["string", "integer"]}}
CONTAINER = shape(
    "name",
    name=TEXT,
    image=TEXT,
    resources=shape(requests=AMOUNTS, limits=AMOUNTS),
    volumeMounts={"type": "array", "items": shape("name mountPath", name=TEXT, mountPath=TEXT)},
)
VOLUME = shape("name", name=TEXT, persistentVolumeClaim=shape("claimName", claimName=TEXT))
POD = shape(
    "spec",
    spec=shape(
        "containers",
        containers={"type": "array", "items": CONTAINER},
        volumes={"type": "array", "items": VOLUME},
    ),
)
GROUP: dict[str, Any] = {"rayStartParams": TEXTS, "template": POD}
WORKERS = shape(
    "groupName template",
    groupName=TEXT,
    replicas=NUMBER,
    minReplicas=NUMBER,
    maxReplicas=NUMBER,
    **GROUP,
)
RAY_CLUSTER = shape(
    "headGroupSpec",
    rayVersion=TEXT,
    enableInTreeAutoscaling=TRUTH,
    authOptions=shape("mode", mode={"enum": ["disabled", "token"]}),
    headGroupSpec=shape("template", serviceType=TEXT, **GROUP),
    workerGroupSpecs={"type": "array", "items": WORKERS},
)
RAY_JOB = shape(
    "apiVersion kind metadata spec",
    apiVersion={"const": "ray.io/v1"},
    kind={"const": "RayJob"},
    metadata=shape("name", name=TEXT),
    spec=shape(
        entrypoint=TEXT,
        submissionMode={"enum": ["K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode"]},
        backoffLimit=NUMBER,
        shutdownAfterJobFinishes=TRUTH,
        ttlSecondsAfterFinished=NUMBER,
        runtimeEnvYAML=TEXT,
        rayClusterSpec=RAY_CLUSTER,
    ),
)


def test_the_kubernetes_manifest_has_fields_that_kuberay_knows() -> None:
    """Those of its RayJob and RayCluster types, as far as the manifest uses them: the whole schema
    is a megabyte.
    """
    jsonschema.validate(yaml.safe_load(block("yaml")), RAY_JOB)


def test_the_kubernetes_manifest_has_our_ray_a_token_and_one_shared_folder() -> None:
    job = yaml.safe_load(block("yaml"))
    cluster = job["spec"]["rayClusterSpec"]
    assert cluster["rayVersion"] == ray.__version__
    assert cluster["authOptions"] == {"mode": "token"}
    assert cluster["headGroupSpec"]["rayStartParams"]["num-gpus"] == "0"
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    for spec in (group["template"]["spec"] for group in groups):
        (mount,) = spec["containers"][0]["volumeMounts"]
        assert mount["name"] in {volume["name"] for volume in spec["volumes"]}
        assert f"studies={mount['mountPath']}/" in job["spec"]["entrypoint"]
    words = shlex.split(job["spec"]["entrypoint"])
    assert words[:5] == ["python", "-m", "study", "run", "quickstart"]


def test_the_slurm_script_is_bash() -> None:
    assert (
        subprocess.run(["bash", "-n"], input=block("bash"), text=True, check=False).returncode == 0
    )
    assert "--dashboard-host=127.0.0.1" in block("bash")


def test_the_prices_add_up() -> None:
    """From what cluster.yaml asks for and the prices that the page names."""
    kinds = yaml.safe_load((ROOT / "cluster.yaml").read_text())["available_node_types"]
    disk = kinds["head"]["node_config"]["BlockDeviceMappings"][0]["Ebs"]
    ((per_gb, free, per_mb),) = (
        map(float, found)
        for found in re.findall(r" GB at \$([\d.]+), .+ the free (\d+) at \$([\d.]+),", CLUSTER)
    )
    hourly = {
        name: float(price)
        for name, price in re.findall(r"(\w+\.\w+)[^|]*\$([\d.]+) an hour", CLUSTER)
    }
    disk_month = disk["VolumeSize"] * per_gb + (disk["Throughput"] - free) * per_mb
    head, workers = (
        hourly[kinds["head"]["node_config"]["InstanceType"]],
        hourly[kinds["gpu"]["node_config"]["InstanceType"]],
    )
    assert f"{disk['VolumeSize']} GB at" in CLUSTER
    assert f"{disk['Throughput'] - free:.0f} MB/s beyond" in CLUSTER
    assert f"| ${head * 24 + disk_month / 30.4:.2f} | ${head * 730 + disk_month:.0f} |" in CLUSTER
    assert f"| ${disk_month / 30.4:.2f} | ${disk_month:.0f} |" in CLUSTER
    assert f"| ${kinds['gpu']['max_workers'] * workers * 24:.0f} | |" in CLUSTER


def test_the_slots_of_the_scale_page_are_its_limits_times_its_seconds() -> None:
    text = (ROOT / "docs" / "scale.md").read_text()
    (header,) = re.findall(
        r"^\| part \| limit \| slots at (\d+) s an epoch \| at (\d+) s \| at (\d+) s \|$",
        text,
        flags=re.MULTILINE,
    )
    rows = re.findall(r"\| (\d+) epochs/s \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|", text)
    assert len(rows) == 3
    for limit, *slots in rows:
        assert [int(each.replace(",", "")) for each in slots] == [
            int(limit) * int(seconds) for seconds in header
        ]


def test_the_architecture_page_lists_every_file_with_its_first_sentence() -> None:
    tree = runpy.run_path(str(ROOT / "docs" / "tree.py"))
    page = tree["PAGE"].read_text()
    assert tree["updated"](page) == page, "run `uv run python docs/tree.py`"
    assert page.count("- `") > 150

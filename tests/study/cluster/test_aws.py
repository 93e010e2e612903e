"""Ray starts a head and a worker from cluster.yaml as it stands, in a stand-in for AWS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from moto import mock_aws
from ray.autoscaler._private.aws.config import bootstrap_aws
from ray.autoscaler._private.aws.node_provider import AWSNodeProvider
from ray.autoscaler._private.util import prepare_config, validate_config
from ray.autoscaler.tags import (
    TAG_RAY_LAUNCH_CONFIG,
    TAG_RAY_NODE_KIND,
    TAG_RAY_NODE_NAME,
    TAG_RAY_USER_NODE_TYPE,
)

from tests.support import ROOT


@pytest.fixture
def aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An AWS account with the default network and nothing else; keys are made in another home."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    monkeypatch.chdir(ROOT)  # file mounts are relative
    with mock_aws(config={"iam": {"load_aws_managed_policies": True}}):
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("aws")
def test_ray_starts_a_head_and_a_worker_from_cluster_yaml() -> None:
    config: dict[str, Any] = prepare_config(yaml.safe_load((ROOT / "cluster.yaml").read_text()))
    validate_config(config)
    ready = bootstrap_aws(config)  # as ray up does before it starts the head
    region = ready["provider"]["region"]
    ec2 = boto3.client("ec2", region_name=region)
    image = ec2.describe_images()["Images"][0]["ImageId"]
    provider = AWSNodeProvider(ready["provider"], ready["cluster_name"])
    for name, kind in ready["available_node_types"].items():
        assert kind["node_config"]["ImageId"].startswith("resolve:ssm:")
        # moto does not resolve aliases; AWS does it for the head, and cluster.sh for workers.
        node_config = kind["node_config"] | {"ImageId": image}
        tags = {
            TAG_RAY_NODE_KIND: "head" if name == ready["head_node_type"] else "worker",
            TAG_RAY_NODE_NAME: f"fairtrial-{name}",
            TAG_RAY_LAUNCH_CONFIG: "hash",
            TAG_RAY_USER_NODE_TYPE: name,
        }
        assert len(provider.create_node(node_config, tags, 1)) == 1
    started = [
        each for one in ec2.describe_instances()["Reservations"] for each in one["Instances"]
    ]
    assert sorted(each["InstanceType"] for each in started) == ["g5.2xlarge", "m6i.xlarge"]
    groups = {group["GroupName"] for each in started for group in each["SecurityGroups"]}
    assert groups == {"fairtrial"}
    rules = ec2.describe_security_groups(GroupNames=["fairtrial"])["SecurityGroups"][0]
    open_to_all = [
        rule["FromPort"]
        for rule in rules["IpPermissions"]
        if any(each["CidrIp"] == "0.0.0.0/0" for each in rule["IpRanges"])
    ]
    assert open_to_all == [22]

"""A cluster that refuses a token is told from one that does not answer."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from study.cluster.ray_token import check_cluster
from study.errors import PreflightError


@pytest.fixture
def refusing() -> Iterator[str]:
    """The address of a server that answers as Ray's does to a wrong token."""

    def refuse(request: bytes, context: Any) -> None:
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "InvalidAuthToken: it is incorrect")

    methods = {"GetClusterId": grpc.unary_unary_rpc_method_handler(refuse)}
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("ray.rpc.NodeInfoGcsService", methods),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None)


def test_a_cluster_that_refuses_the_token_is_named_with_the_file_that_is_wrong(
    refusing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "/home/somebody/token")
    with pytest.raises(
        PreflightError, match=rf"{refusing} refuses the one here; .* /home/somebody/token"
    ):
        check_cluster(refusing)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "auto", "ray://127.0.0.1:10001"])
def test_what_else_may_be_wrong_is_left_to_ray(address: str) -> None:
    check_cluster(address)

"""Find and protect the token that admits jobs and drivers to a Ray cluster of this user."""

import getpass
import os
from pathlib import Path

from study.errors import PreflightError

ANSWER_SECONDS = 5.0  # for a cluster to say whether it takes a token


def token_path() -> Path:
    """Return the file in which Ray keeps the token."""
    return Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or "~/.ray/auth_token").expanduser()


def check_token() -> None:
    """Raise PreflightError if there is no token here."""
    path = token_path()
    if "RAY_AUTH_TOKEN" not in os.environ and not path.exists():
        raise PreflightError(
            f"A cluster takes jobs only with its token, but there is no {path}; `ray "
            f"get-auth-token --generate` makes one, and `ray up` puts it on every node."
        )


def check_cluster(address: str) -> None:
    """Raise PreflightError if the cluster at HOST:PORT refuses the token that this process has.

    Ray would ask it twenty times, print each answer, and then say only that it cannot connect.
    """
    from ray._private.grpc_utils import init_grpc_channel
    from ray.core.generated import gcs_service_pb2, gcs_service_pb2_grpc

    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "/" in host:  # auto, or a Ray client's address
        return
    cluster = gcs_service_pb2_grpc.NodeInfoGcsServiceStub(init_grpc_channel(address))
    try:
        cluster.GetClusterId(gcs_service_pb2.GetClusterIdRequest(), timeout=ANSWER_SECONDS)
    except Exception as error:  # Ray itself says what else may be wrong
        if "InvalidAuthToken" in str(error):
            raise PreflightError(
                f"A cluster takes drivers only with its token, but {address} refuses the one here; "
                f"copy the token of its head to {token_path()}, and set RAY_AUTH_MODE=token."
            ) from None


def close_token() -> None:
    """Close the token's file to other users: Ray makes it readable for everyone."""
    path = token_path()
    if path.exists() and path.owner() == getpass.getuser() and path.stat().st_mode & 0o077:
        path.chmod(0o600)

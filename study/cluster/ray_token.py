"""Find and protect the token that admits jobs and drivers to a Ray cluster of this user."""

import getpass
import os
from pathlib import Path

from study.errors import PreflightError


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


def close_token() -> None:
    """Close the token's file to other users: Ray makes it readable for everyone."""
    path = token_path()
    if path.exists() and path.owner() == getpass.getuser() and path.stat().st_mode & 0o077:
        path.chmod(0o600)

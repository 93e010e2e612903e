"""Change a ledger as nobody may, and make its checksums fit again."""

from collections.abc import Callable
from pathlib import Path

from analysis.record.checksums import _FIELD, chained
from analysis.record.ledger import LEDGER


def rewrite(folder: Path, change: Callable[[str], str]) -> None:
    """Change the ledger's text, as if the study had happened otherwise."""
    changed = change(_without_sums((folder / LEDGER).read_bytes())).encode()
    lines, total = [], ""
    for line in changed.splitlines():
        written, total = chained(line, total)
        lines.append(written)
    (folder / LEDGER).write_bytes(b"".join(lines))


def _without_sums(ledger: bytes) -> str:
    lines = ledger.splitlines(keepends=True)
    return b"".join(_FIELD.sub(b"}\\n", line) for line in lines).decode()

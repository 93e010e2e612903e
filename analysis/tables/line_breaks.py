"""Break a text into lines where a reader would."""

from textwrap import wrap


def broken(text: str, width: int) -> list[str]:
    """Return the text in lines that break between words, after hyphens and after slashes."""
    parts = wrap(text.replace("/", "/\0 "), width, break_long_words=False)
    return [part.replace("/\0 ", "/").replace("\0", "") for part in parts]

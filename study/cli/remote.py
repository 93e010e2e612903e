"""--cluster: run a verb on the head of a cluster instead of here, and print its output."""

import inspect
import re
import shlex
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from study.cli.terminal import FAIRTRIAL, one_sentence
from study.cluster.head import ClusterHead

ClusterFile = Annotated[
    Path | None,
    typer.Option(
        "--cluster",
        metavar="FILE",
        help="on the cluster that this file describes, by ssh: cluster.yaml",
    ),
]

PAGELESS = ("table", "figure", "published", "as_json")  # a report with one of these has no page
# What the head prints to type there; from here it is another command.
RESUME = re.compile(r"(?:uv run )?fairtrial run (\S+) --resume")
STUDIES = re.compile(r" --(?:set studies=|studies )[^\s`]+")


def or_there(verb: Callable[..., None]) -> Callable[..., None]:
    """Return the same verb with an option --cluster."""

    @wraps(verb)
    def either(*, context: typer.Context, cluster: Path | None, **values: Any) -> None:
        if cluster is None:
            verb(**values)
            return
        with one_sentence():
            head = ClusterHead(cluster)
            writes_page = verb.__name__ == "report" and not any(map(values.get, PAGELESS))
            words = [verb.__name__, *_words(context, head), *(["--print-path"] * writes_page)]
            if values.get("watch"):
                raise typer.Exit(head.watch(words))
            code, text = head.run(words)
            text = _fetch_page(head, text) if writes_page and not code else text
        file = shlex.quote(str(cluster))
        text = RESUME.sub(rf"{FAIRTRIAL} submit \1 --resume", text)
        print(STUDIES.sub(lambda _: f" --cluster {file}", text), end="")
        raise typer.Exit(code)

    before = inspect.signature(verb)
    added = [
        inspect.Parameter(
            "cluster", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=ClusterFile
        ),
        inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context),
    ]
    either.__signature__ = before.replace(parameters=[*before.parameters.values(), *added])  # type: ignore[attr-defined]
    either.__annotations__ = {
        **verb.__annotations__,
        **{each.name: each.annotation for each in added},
    }
    return either


def _words(context: typer.Context, head: ClusterHead) -> list[str]:
    """Return the command line to type on the cluster.

    Its studies folder is the one that all nodes share.
    """
    words = []
    for param in context.command.params:
        value = context.params.get(param.name or "")
        if value is None or param.name in ("cluster", "studies"):
            continue
        for each in value if isinstance(value, list | tuple) else [value]:
            if each is not False:
                words += [param.opts[0]] if param.param_type_name == "option" else []
                words += [] if each is True else [str(each)]
    given = context.get_parameter_source("studies")
    return [
        *words,
        "--studies",
        head.studies if given is None or given.name == "DEFAULT" else context.params["studies"],
    ]


def _fetch_page(head: ClusterHead, text: str) -> str:
    """Fetch the page that the last line names, and name the copy in its place."""
    *lines, path = text.rstrip("\n").split("\n")
    page = Path(f"{Path(path).parent.name}-report.html").absolute()
    head.fetch(path, page)
    return "\n".join([*lines, f"Report   {page}"]) + "\n"

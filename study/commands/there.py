"""--cluster: a verb runs on the head of a cluster in place of here, and what it prints comes back."""

import inspect
import re
import shlex
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from study.commands import FAIRTRIAL, one_sentence
from study.head import Head

ClusterFile = Annotated[
    Path | None, typer.Option("--cluster", metavar="FILE", help="on the cluster that this file describes, by ssh: cluster.yaml")
]

RESUME = re.compile(r"fairtrial run (\S+) --resume")  # as it is said there; from here it is another command


def or_there(verb: Callable[..., None]) -> Callable[..., None]:
    """The same verb with an option --cluster."""

    @wraps(verb)
    def either(*, context: typer.Context, cluster: Path | None, **values: Any) -> None:
        if cluster is None:
            verb(**values)
            return
        with one_sentence():
            head = Head(cluster)
            words = [verb.__name__, *_words(context, head)]
            if values.get("watch"):
                raise typer.Exit(head.watch(words))
            code, text = head.run(words)
            text = _bring(head, text) if verb.__name__ == "report" and not code else text
        file = shlex.quote(str(cluster))
        print(RESUME.sub(lambda said: f"{FAIRTRIAL} submit {said[1]} --resume --cluster {file}", text), end="")
        raise typer.Exit(code)

    before = inspect.signature(verb)
    added = [
        inspect.Parameter("cluster", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=ClusterFile),
        inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context),
    ]
    either.__signature__ = before.replace(parameters=[*before.parameters.values(), *added])  # type: ignore[attr-defined]
    either.__annotations__ = {**verb.__annotations__, **{each.name: each.annotation for each in added}}
    return either


def _words(context: typer.Context, head: Head) -> list[str]:
    """What was typed here, as it is typed there; the studies folder is the one that all nodes share."""
    words = []
    for param in context.command.params:
        value = context.params.get(param.name or "")
        if value is None or param.name in ("cluster", "studies"):
            continue
        if param.param_type_name == "option":
            words += [param.opts[0]] if value is True else [] if value is False else [param.opts[0], str(value)]
        else:
            words.append(str(value))
    given = context.get_parameter_source("studies")
    return [*words, "--studies", head.studies if given is None or given.name == "DEFAULT" else context.params["studies"]]


def _bring(head: Head, text: str) -> str:
    """The page of a report, beside you; its line says where it is now."""
    found = re.search(r"^Report +(\S+/(\S+)/report\.html)$", text, flags=re.MULTILINE)
    if not found:  # --json
        return text
    page = Path(f"{found[2]}-report.html").absolute()
    head.fetch(found[1], page)
    return text[: found.start(1)] + str(page) + text[found.end(1) :]

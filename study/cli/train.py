"""fairtrial train: run one trial in this process, without Ray, for a debugger."""

from typing import Annotated

import typer

from analysis.record.state import NO_REST
from search_spaces import pick
from study.cli.terminal import Sets, Smoke, Source, one_sentence
from study.config.plan import expand
from study.config.sources import resolve
from study.driver.preflight import stage


def train(
    source: Source,
    cell: Annotated[
        str | None,
        typer.Option(help="which cell, as `fairtrial plan` names it; the first one by default"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    final: Annotated[
        bool, typer.Option("--final", help="at the end, score the test classes too")
    ] = False,
    sets: Sets = [],  # noqa: B006
    smoke: Smoke = False,
) -> None:
    """Train one cell with its published setting (change it with --set settings.LOSS.NAME=VALUE).
    Nothing is stored.
    """
    with one_sentence():
        config = resolve(source, sets=sets, smoke=smoke).config
        plan = expand(config)
        cells = {plan.label(each): each for each in plan.cells}
        chosen = pick(cells, cell or next(iter(cells)), "cell")
        stage(plan)
    from trainables.distributed.process import prepare_process
    from trainables.inputs.features import load_data
    from trainables.training.learner import Learner

    prepare_process()  # as in a slot
    spec = plan.spec(chosen, "final" if final else "search", seed, plan.published(chosen.loss))
    mark = " (chosen with test feedback)" if spec.peeks else ""
    learner = Learner(spec, load_data(spec))
    print(f"{plan.label(chosen)}, seed {seed}, {dict(spec.setting)}")
    while not learner.done:
        row = learner.epoch()
        scores = "  ".join(f"{name} {value:.4f}" for name, value in row.select.items())
        print(
            f"epoch {row.epoch:>3}  loss {_loss(row.loss)}  select: {scores}{mark}  "
            f"{row.seconds:.1f} s"
            + "".join(f"  {end.replace('_', ' ')}" for end in NO_REST if getattr(row, end))
        )
    if final:
        result = learner.read_test()
        epochs = " ".join(map(str, result.epochs))
        scores = "  ".join(f"{name} {value:.4f}" for name, value in result.test.items())
        print(f"test at epoch {epochs} ({spec.rule}): {scores}{mark}")
        print("No study's audit records this reading of the test classes: do not choose by it.")


def _loss(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.4f}"

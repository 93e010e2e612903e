"""fairtrial repair: cut a broken record back to its last good line."""

from pathlib import Path
from typing import Annotated

import typer

from study.cli.terminal import Studies, one_sentence, typed
from study.driver.folder import find_study


def repair(
    study: Annotated[str, typer.Argument(help="the study whose record cannot be read")],
    studies: Studies = "studies",
) -> None:
    """Mend a study whose ledger was damaged or changed: keep all lines before the damage, and a
    copy of the rest. What was cut off is trained again when the study is resumed.
    """
    from study.driver.repair import repair as cut_back

    with one_sentence():
        folder = find_study(Path(studies), study)
        done = cut_back(folder)
    if done is None:
        print(f"Nothing is wrong with the record of {folder.name}.")
        return
    lost = f"{done.trials} ended trials and {done.epochs} epochs"
    unknown = (
        f" {done.unreadable} of them cannot be read at all, so they may have recorded readings of "
        f"the test classes."
        if done.unreadable
        else ""
    )
    print(
        f"Kept {done.kept} lines and cut off {done.cut}, which recorded {lost}.{unknown}\n"
        f"The broken record is {done.copy}.\n"
        f"Resume: {typed(f'run {folder.name} --resume', studies)}"
    )

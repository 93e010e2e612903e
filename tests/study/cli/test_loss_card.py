"""`list losses NAME` prints a card as it is written, brackets included."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from search_spaces import LOSSES, LossSpace, value_text
from study.__main__ import app
from study.cli.listing import KINDS
from study.config.study_config import StudyConfig


def written(name: str, card: LossSpace) -> list[str]:
    """Return every text and value of a card."""
    texts = [name, card.cite, card.about, card.kind, card.mining, card.reduction, card.note]
    for key, param in card.params.items():
        values = [value_text(value) for _, value in param.cited()]
        texts += [key, *values, str(param.search), param.unit, param.note]
    texts += [f"{claim.recall_at_1:g} on {claim.dataset}" for claim in card.claims]
    return [text for text in [*texts, *(claim.source for claim in card.claims)] if text]


def printed(*words: str, verb: str = "list") -> str:
    """Return what `fairtrial list` prints, without its line breaks."""
    result = CliRunner().invoke(app, [verb, *words], env={"COLUMNS": "2000"})
    assert result.exit_code == 0
    return " ".join(result.output.split())


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_a_card_is_printed_as_it_is_written(name: str) -> None:
    found = printed("losses", name)
    assert [text for text in written(name, LOSSES[name]) if text not in found] == []


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_list_says_of_every_member_what_is_written_about_it(kind: str) -> None:
    found = printed(kind)
    about = [" ".join(entry["about"].split()) for entry in KINDS[kind]().values()]
    assert [text for text in about if text not in found] == []


def test_every_key_is_printed_with_its_whole_description() -> None:
    found = printed("keys", verb="config")
    about = [field.description or "" for field in StudyConfig.model_fields.values()]
    assert any("[" in text for text in about)
    assert [text for text in about if not text or text not in found] == []
    assert [name for name in StudyConfig.model_fields if name not in found] == []


def test_a_name_of_the_users_own_is_printed_as_it_is_typed(tmp_path: Path) -> None:
    """Brackets in a path are no markup."""
    folder = tmp_path / "[red]photos[/red]"
    result = CliRunner().invoke(app, ["status", "--studies", str(folder)], env={"COLUMNS": "2000"})
    assert "[red]photos[/red]" in result.output


def test_rich_would_lose_brackets_if_it_read_them_as_markup() -> None:
    assert "[d_ap - d_an + margin]+" in printed("losses", "triplet_p_norm")

"""The page stands alone, marks every number that peeks, and claims no more than its intervals
allow.
"""

import json
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis import read_study
from analysis.ranking.notes import ONE_SEARCH
from analysis.record.kept_files import KEPT
from analysis.record.ledger import Ledger
from analysis.record.specs import SPECS, digest_of
from analysis.record.trial_id import TrialId
from analysis.report.report import write_report
from analysis.statistics import ROPE
from analysis.tables.catalogue import Study, rope_of
from tests.support.events import epoch_done, study_started, trial_ended, trial_started
from tests.support.synthetic_study import FOLDS, RATIO, everything, final, rows_of, spec
from trainables.contract import QUERIES

RULES = {
    "default": "best-on-test",
    "fixed_validation": "selected-on-validation",
    "none": "untrained",
}
CONFIG = "name: full\nselect_metric: recall_at_1\ntracking_uri: https://me:secret@mlflow.example/\n"


SPEC = json.dumps(spec(RATIO))


class Writer:
    """Record trials as a driver does, with made-up scores."""

    def __init__(self, home: Path) -> None:
        (home / SPECS).mkdir(parents=True)
        (home / SPECS / f"{digest_of(SPEC)}.json").write_text(SPEC)
        self.home, self.ledger = home, Ledger(home)
        code = {"torch": "2", "ray": "2"}
        config = {"name": home.name}
        self.ledger.append(study_started(config=config, code=code, commit="abc123"))

    def trial(
        self,
        loss: str,
        protocol: str,
        name: str,
        *,
        recall: float = 0.5,
        margin: float | None = None,
        backbone: str = "tiny",
        failed: bool = False,
    ) -> None:
        margin = 0.1 + 0.1 * (name != "search-0") if margin is None else margin
        trial = TrialId.parse(f"sketches/{backbone}-16/{loss}/{protocol}/{name}")
        setting, rule = {"loss.margin": margin}, RULES[protocol]
        seed = trial.number if trial.phase == "final" else 0
        tuned = trial.phase == "final" and protocol == "fixed_validation"
        about = {"label": loss, "setting": setting, "rule": rule, "seed": seed, "tuned": tuned}
        self.ledger.append(trial_started(trial, **about, spec=digest_of(SPEC)))
        if failed:
            self.ledger.append(trial_ended(trial, outcome="failed", epoch=0))
            return
        metrics = {"select/recall_at_1": recall, "select/best": recall, "seconds": 1.0}
        last = {"test/recall_at_1": recall, "chosen_epoch": 2.0} if trial.phase == "final" else {}
        if loss == "untrained":
            self.ledger.append(epoch_done(trial, 0, metrics=last))
        else:
            self.ledger.append(epoch_done(trial, 1, metrics=metrics))
            self.ledger.append(epoch_done(trial, 2, metrics=metrics | last))
        if trial.phase == "final":
            self._queries(trial, recall)
        self.ledger.append(trial_ended(trial))

    def _queries(self, trial: TrialId, recall: float) -> None:
        """Write five test classes of ten queries; their scores differ, so intervals are wide."""
        target = self.home / KEPT / trial.folder
        target.mkdir(parents=True)
        classes = np.repeat(np.arange(5), 10)
        scores = recall + 0.01 * classes
        columns = {"fold": "0", "rule": RULES[trial.cell.protocol], "class": classes}
        frame = pd.DataFrame({**columns, "recall_at_1": scores, "map_at_r": scores / 4})
        frame.to_csv(target / QUERIES, index=False)


def full(write: Callable[..., None]) -> None:
    for loss, recall in (("triplet", 0.4), ("contrastive", 0.6)):
        for number in range(3):
            write(
                loss,
                "fixed_validation",
                f"search-{number}",
                recall=recall + 0.01 * number,
                failed=number == 2,
            )
        for protocol, extra in (("default", 0.05), ("fixed_validation", 0.0)):
            for seed in range(2):
                write(
                    loss,
                    protocol,
                    f"final-{seed}",
                    recall=recall + extra + 0.01 * seed,
                    margin=0.0 if loss == "contrastive" else None,
                )
    write("triplet", "default", "final-2", failed=True)
    write("untrained", "none", "final-0", recall=0.45, backbone="pixels")
    write("untrained", "none", "final-0", recall=0.2)


def partial(write: Callable[..., None]) -> None:
    """Only the default setup on one backbone, only the validation setup with one seed on another,
    only a search on a third.
    """
    write("triplet", "default", "final-0")
    write("triplet", "fixed_validation", "final-0", backbone="small")
    write("triplet", "fixed_validation", "search-0", backbone="large", failed=True)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """Three studies, each with its page."""
    folder = tmp_path_factory.mktemp("studies")
    found: dict[str, Any] = {"folder": folder}
    for name, fill in {"full": full, "partial": partial, "empty": lambda write: None}.items():
        fill(Writer(target := folder / name).trial)
        study = Study(read_study(target))
        page, *_ = write_report(study, folder=target, config_yaml=CONFIG, readings=Counter())
        found[name] = page.read_text(encoding="utf-8")
        found["rankings"] = found.get("rankings", study.rankings)
    return SimpleNamespace(**found)


def table_of(page: str, name: str) -> str:
    return page[page.index(f'<table class="{name}"') :].split("</table>")[0]


def rows_of_table(page: str, name: str) -> list[str]:
    table = table_of(page, name)
    return re.findall(r"<tr>(.*?)</tr>", table.split("<tbody>")[1], flags=re.DOTALL)


def texts(row: str) -> list[str]:
    return [
        re.sub(r"<[^>]*>", "", cell)
        for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, flags=re.DOTALL)
    ]


def row_of(page: str, name: str, loss: str) -> str:
    return next(row for row in rows_of_table(page, name) if loss in texts(row))


def answer_of(page: str) -> str:
    """Return the panel that is seen first."""
    return page.split('id="answer"')[1].split('<section class="panel"')[0]


def comparisons_of(page: str) -> list[str]:
    """Return the parts of the panel on losses, one for each comparison."""
    losses = page.split('id="losses"')[1].split('<section class="panel"')[0]
    return losses.split('<section class="comparison">')[1:]


def test_a_page_asks_nothing_of_the_network(pages):
    for page in (pages.full, pages.partial, pages.empty):
        assert not re.search(r"(src|href)\s*=\s*[\"']?\s*(https?:)?//", page)
        assert not re.search(r"<link|@import|url\((?!#)", page)
        assert re.findall(r"<script([^>]*)>", page) == [' type="application/json" id="data"', ""]
        (script,) = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
        assert f"script-src 'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" in page


def test_every_id_on_a_page_is_its_own(pages):
    for page in (pages.full, pages.partial):
        assert [
            name for name, count in Counter(re.findall(r' id="([^"]+)"', page)).items() if count > 1
        ] == []


def test_every_number_that_peeks_is_starred_and_no_other(pages):
    numbers = re.findall(r'<span class="(peeks|honest)">(.*?)</span>', pages.full)
    assert {kind for kind, _ in numbers} == {"peeks", "honest"}
    assert all(("*" in text) == (kind == "peeks") for kind, text in numbers)
    for row in pages.rankings[0].rows:
        for number in (*row.default.values(), *row.validation.values()):
            kind = "peeks" if number.peeks else "honest"
            assert f'<span class="{kind}">{number.percent()}' in pages.full
        gap = f"{100 * row.difference['recall_at_1'].value:+.1f}*".replace("-", "−")
        assert f'<span class="peeks">{gap}' in pages.full


def test_the_page_shows_search_compute_origin_and_failures(pages):
    assert "3 trials did not finish" in pages.full
    assert "triplet, default, final-2: failed" in pages.full
    assert texts(row_of(pages.full, "hyperparameters", "triplet"))[2:6] == [
        "0.1",
        "0.1",
        "0.1",
        "0.2",
    ]
    assert [
        row[:4] for row in map(texts, rows_of_table(pages.full, "compute")) if row[0] == "all"
    ] == [["all", "all", "1", "17"]]
    assert "abc123" in pages.full
    assert "fairtrial run config.yaml --name full-again" in pages.full


def test_a_value_that_a_search_chose_at_the_edge_of_its_range_is_told(pages):
    note = (
        "margin of contrastive under fixed_validation was chosen as 0, at the edge of its range "
        "0 to 1: the best may lie outside."
    )
    assert pages.full.count("at the edge of its range") == 1
    for text in (pages.full, (pages.folder / "full" / "ranking.md").read_text()):
        assert note in text


def test_every_column_of_numbers_names_its_rule(pages):
    head = table_of(pages.full, "ranking").split("</thead>")[0]
    assert "default setup* <small>best-on-test</small>" in head
    assert "validation setup <small>selected-on-validation</small>" in head
    assert table_of(pages.full, "baselines").count(">untrained</td>") == 2
    assert ", selected-on-validation)" in answer_of(pages.full)


def test_the_head_says_that_there_was_one_search_and_warns_of_few_validation_classes(pages):
    head = answer_of(pages.full)
    assert head.count(ONE_SEARCH) == pages.full.count(ONE_SEARCH) == 1
    assert '<p class="warning"><b>WARNING: ' in head
    assert pages.full.count("WARNING: ") == 1
    assert ONE_SEARCH not in pages.empty


def test_every_number_has_its_interval_and_every_ranked_loss_its_group(pages):
    table = table_of(pages.full, "ranking")
    numbers = re.findall(r'<span class="(?:peeks|honest)">(.*?)</span>', table)
    assert len(numbers) == 2 * 7
    assert all(re.search(r"<small>\[.*\]</small>", number) for number in numbers)
    groups = [texts(row)[1] for row in rows_of_table(pages.full, "ranking")]
    assert groups == [row.groups for row in pages.rankings[0].rows] == ["a", "b"]
    told = "Two losses share a letter exactly if no difference between them is shown"
    assert pages.full.count(told) == len(pages.rankings)


def test_what_a_column_is_sorted_by_is_what_the_script_reads(pages):
    values = [float(value) for value in re.findall(r'data-value="([^"]+)"[^>]*><span', pages.full)]
    assert pages.rankings[0].rows[0].validation["map_at_r"].value in values
    assert "dataset.value" in pages.full
    assert "dataset.sort" not in pages.full


def test_the_fairness_check_is_a_warning_only_where_something_is_unequal(made, tmp_path):
    """Made rows have equal conditions, until one loss has a batch of its own."""
    assert 'class="notes fairness"' in made
    assert made.count("Equal between the losses compared") == 1, "once, not above every table"
    rows = rows_of([final(loss, RATIO, "final", 1) for loss in ("triplet", "contrastive")])
    training = {**spec(RATIO)["training"], "batch_size": 40}
    other = {
        cell: {**of, "training": training} if "triplet" in cell else of
        for cell, of in rows.specs.items()
    }
    page = write_report(
        Study(replace(rows, specs=other)), folder=tmp_path, config_yaml=CONFIG, readings=Counter()
    )[0].read_text(encoding="utf-8")
    assert 'class="notes fairness warning"' in page
    assert "<li>Not equal between the losses under fixed_validation:0.1: batch size" in page
    assert "qual between the losses compared" not in page


@pytest.mark.parametrize(("kept", "told"), [("first", True), ("none", False)])
def test_a_page_without_maps_says_how_to_get_them_if_there_are_embeddings(kept, told, tmp_path):
    study = Study(rows_of([final("triplet", RATIO, "final", 1)]))
    page = write_report(
        study,
        folder=tmp_path,
        config_yaml=f"name: made\nkeep_embeddings: {kept}\n",
        readings=Counter(),
    )[0].read_text(encoding="utf-8")
    assert ("<code>fairtrial report made</code> adds them" in page) == told


def test_without_an_audit_the_page_tells_none(pages):
    assert "Audit" not in pages.full


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a study with every kind of final trial, and with its audit."""
    folder = tmp_path_factory.mktemp("made")
    readings = Counter({"refit": 1, "best-on-test": 1200, "last-epoch": 1})
    study = Study(rows_of(everything()))
    page, *_ = write_report(study, folder=folder, config_yaml=CONFIG, readings=readings)
    return page.read_text(encoding="utf-8")


def test_the_audit_is_one_line_by_rule(made):
    assert (
        "Audit: the test classes were read 1,200 best-on-test*, 1 last-epoch, 1 refit times."
        in made
    )


def test_each_honest_protocol_has_a_section_with_its_own_figures(made):
    assert re.findall(r"<h2>(.*?)</h2>", made)[:2] == [
        f"sketches, tiny, 16 dimensions, {protocol}" for protocol in (RATIO, FOLDS)
    ]
    assert [
        name for name, count in Counter(re.findall(r' id="([^"]+)"', made)).items() if count > 1
    ] == []
    first, second = comparisons_of(made)
    assert "mean of 2 folds" in second
    assert "mean of 2 folds" not in first
    assert "concatenated</td>" in second
    assert "concatenated</td>" not in first


def test_what_the_default_setup_learned_and_searched_stands_once_and_the_next_section_says_where(
    made,
):
    first, second = comparisons_of(made)
    panels = re.findall(r'id="[^"]*panel-curves-default-(\w+)"', made)
    assert sorted(panels) == ["contrastive", "triplet"]
    assert 'panel-curves-default-triplet"' in first
    assert f'panel-curves-{FOLDS}-triplet"' in second
    assert made.count("The search with test feedback") == 1
    assert "is shown there" not in first
    assert (
        f"is the same here as under sketches, tiny, 16 dimensions, {RATIO} and is shown there."
        in second
    )
    assert 'peeks">Recall@1*' in second  # its numbers still stand beside the others


def test_a_page_with_everything_stars_what_peeks_and_no_other(made):
    numbers = re.findall(r'<span class="(peeks|honest)">(.*?)</span>', made)
    assert all(("*" in text) == (kind == "peeks") for kind, text in numbers)
    beside = [row for row in rows_of_table(made, "beside") if "triplet" in texts(row)]
    rows = {tuple(texts(row)[1:4]): row for row in beside}
    assert '<span class="peeks">61.7*' in rows["default", "last epoch", "last-epoch"]
    assert '<span class="honest">61.7 ' in rows["validation", "refit", "refit"]


def test_the_decomposition_is_on_the_page_with_the_rule_of_every_column(made):
    groups, heads = table_of(made, "decomposition").split("<tbody>")[0].split("</tr>")[:2]
    assert re.findall(r'colspan="(\d)">([\w ]*)<', groups) == [
        ("2", ""),
        ("3", "all train classes"),
        ("2", "fewer train classes"),
    ]
    assert texts(heads)[2:] == [
        "best-on-test*",
        "refit",
        "last-epoch",
        "selected-on-validation",
        "last-epoch",
    ]
    rows = [texts(row) for row in rows_of_table(made, "decomposition")]
    (row,) = [row for row in rows if row[:2] == ["triplet", "published"]]
    values = [text.partition(" ")[0] for text in row[2:]]
    assert values == ["61.7*", "–", "41.7", "21.7", "1.7"]


def test_every_step_is_a_column_of_its_own_with_an_interval_and_what_is_missing_is_told(made):
    below = made[made.index('<table class="steps"') :].split("</table>")[1]
    groups = table_of(made, "steps").split("</tr>")[0]
    assert texts(groups)[1:] == ["no peeking", "fewer train classes", "tuning"]
    row = row_of(made, "steps", "triplet")
    cells = re.findall(r'class="(peeks|honest)">(.*?) <small>(.*?)</small>', row)
    assert [cell[:2] for cell in cells] == [
        ("peeks", "−20.0*"),
        ("honest", "−20.0"),
        ("honest", "+20.0"),
    ]
    assert all(re.fullmatch(r"\[.*, .*\]", span) for *_, span in cells)
    assert "paired by test class and replicate" in below
    assert (
        f"tuning under {FOLDS}: no number, because that takes a search and published_too." in made
    )


def test_a_loss_without_a_step_that_others_have_says_why(tmp_path):
    made = [final("triplet", RATIO, role, 1) for role in ("published", "final")]
    study = Study(rows_of([*made, final("contrastive", RATIO, "final", 1)]))
    page = write_report(study, folder=tmp_path, config_yaml=CONFIG, readings=Counter())[
        0
    ].read_text(encoding="utf-8")
    why = (
        "no final trial finished with published setting, fewer train classes, "
        "selected-on-validation"
    )
    assert f'<p class="note">contrastive, tuning: {why}.</p>' in page


def test_the_search_with_test_feedback_is_starred_and_chose_only_final_trials_settings(made):
    found = [texts(row) for row in rows_of_table(made, "search")]
    assert {(row[0], "30.0*" in row, "30.0" in row) for row in found} == {
        ("default", True, False),
        (RATIO, False, True),
    }
    assert "The search with test feedback" in made
    chosen = [texts(row) for row in rows_of_table(made, "hyperparameters")]
    assert len(chosen) == 4  # two losses, both setups
    assert all("0.1" in row and ("0*" if row[0] == "default" else "0") in row for row in chosen)


def test_a_password_in_an_address_stays_off_the_page(pages):
    assert "mlflow.example" in pages.full
    assert "secret" not in pages.full


def test_an_empty_study_has_a_page_that_says_so(pages):
    assert "nothing to rank" in pages.empty
    assert "nothing to rank" in (pages.folder / "empty" / "ranking.md").read_text()
    assert pd.read_csv(pages.folder / "empty" / "ranking.csv").empty


def test_a_partial_study_is_ranked_only_where_nothing_peeked(pages):
    assert "Only the default setup was run" in pages.partial
    assert "triplet, the only loss here, has a Recall@1 of 52.0" in pages.partial
    assert "No final trial has finished" in pages.partial
    frame = pd.read_csv(pages.folder / "partial" / "ranking.csv").set_index("backbone")
    assert np.isnan(frame.loc["tiny", "rank"])
    assert frame.loc["small", "rank"] == 1


def test_the_csv_holds_the_rankings_values(pages):
    frame = pd.read_csv(pages.folder / "full" / "ranking.csv")
    rows = pages.rankings[0].rows
    assert frame["loss"].tolist() == [row.loss for row in rows] == ["contrastive", "triplet"]
    for (_, line), row in zip(frame.iterrows(), rows, strict=True):
        assert (line["rank"], line["rank_low"], line["rank_high"]) == (row.rank, *row.rank_interval)
        for side in ("default", "validation", "difference"):
            for metric, number in getattr(row, side).items():
                columns = [f"{side}_{metric}{end}" for end in ("", "_low", "_high")]
                assert line[columns].tolist() == pytest.approx(
                    [number.value, number.low, number.high]
                )
                assert line[f"{side}_rule"] == number.rule


def test_the_region_of_practical_equivalence_is_read_from_the_config_in_points():
    assert rope_of({"name": "x", "rope": 2}) == 0.02
    assert rope_of({"name": "x"}) == rope_of({}) == ROPE

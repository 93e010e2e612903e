"""The command line, as a user types it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch
import yaml
from typer.testing import CliRunner

from search_spaces import LOSSES
from study.__main__ import app
from study.cli import doctor, run
from study.cli.listing import KINDS
from study.config.study_config import StudyConfig, make
from study.driver.folder import CONFIG, config_yaml
from study.presets import PRESETS
from study.presets.laptop import quickstart
from tests.support.studies import own_data

HEAVY = ("torch", "ray", "mlflow")
BAD = [
    ["run", "quickstart", "--set", "losses=multisimilarity"],
    ["run", "quickstrt"],
    ["run", "quickstart", "--set", "settings.triplet.margin=-1"],
    ["run", "quickstart", "--set", "val_fraction=0.99"],
    ["run", "bad.yaml"],
    ["plan", "quickstart", "--set", "epochs=0"],
    ["train", "quickstart", "--cell", "triplet/defalt"],
    ["run", "quickstart", "--set", "epochs.x=3"],
    ["run", "quickstart", "--set", "tracking_uri=nonsense"],
    ["list", "lossses"],
    ["report", "nothing"],
    ["report", "--table", "turnament"],
    ["report", "--table", "retrieval", "--format", "xls"],
    ["report", "--table", "retrieval", "--beside", "thesys"],
    ["report", "--published", "thesis", "--table", "transfer"],
    ["compare", "one", "another"],
    ["config", "show", "quickstart", "--set", "nonsense"],
    ["ui"],
]


# One process types all of them: what the first does not import, the last has not got either.
TYPE_ALL = """
import contextlib, io, json, sys
from study.__main__ import main
done = {}
for words in json.loads(sys.argv[1]):
    sys.argv, out, err, code = ["fairtrial", *words], io.StringIO(), io.StringIO(), None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code
    heavy = [name for name in HEAVY if name in sys.modules]
    done[" ".join(words)] = code, out.getvalue(), err.getvalue(), heavy
print(json.dumps(done))
"""


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str, str, list[str]]]:
    """Exit code, output, errors and heavy imports of every bad command line."""
    folder = tmp_path_factory.mktemp("bad")
    (folder / "bad.yaml").write_text("name: x\nno_such_key: 1\n")
    program = TYPE_ALL.replace("HEAVY", str(HEAVY))
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(BAD)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert [path.name for path in folder.iterdir()] == ["bad.yaml"]
    return json.loads(done.stdout)  # type: ignore[no-any-return]


@pytest.mark.parametrize("words", [" ".join(words) for words in BAD])
def test_bad_input_ends_with_exit_2_and_one_sentence_before_anything_heavy_is_imported(
    words: str, typed: dict[str, tuple[int, str, str, list[str]]]
) -> None:
    code, output, errors, heavy = typed[words]
    assert (code, output, heavy) == (2, "", [])
    assert errors.startswith("fairtrial: ")
    assert len(errors.strip().splitlines()) == 1


LIGHT = """
import sys
from study.__main__ import main
sys.argv = ["fairtrial", *sys.argv[1:]]
try:
    main()
finally:
    print([name for name in HEAVY if name in sys.modules], file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("words", "code"),
    [("--help", 0), ("status", 2), ("list presets", 0), ("config show quickstart", 0)],
)
def test_a_light_command_imports_nothing_heavy(words: str, code: int, tmp_path: Path) -> None:
    program = LIGHT.replace("HEAVY", str([*HEAVY, "pandas"]))
    (tmp_path / "studies").mkdir()
    command = [sys.executable, "-c", program, *words.split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (code, "[]"), done.stderr


def test_the_version_is_the_packages() -> None:
    told = CliRunner().invoke(app, ["--version"])
    assert (told.exit_code, told.stdout) == (0, f"fairtrial {version('fairtrial')}\n")
    assert version("fairtrial").count(".") == 2


def test_a_place_that_is_not_writable_ends_with_exit_4(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(
        app, ["run", "quickstart", "--set", f"studies={tmp_path}/file/studies"]
    )
    assert result.exit_code == 4
    assert "must be writable" in result.stderr


def test_plan_refuses_a_weight_file_that_run_would_refuse(tmp_path: Path) -> None:
    file = tmp_path / "other.pth"
    torch.save({"conv1.weight": torch.zeros(1)}, file)
    options = ["--set", f"weights={file}", "--set", f"studies={tmp_path}/studies"]
    for verb in ("plan", "run"):
        result = CliRunner().invoke(app, [verb, "quickstart", *options])
        assert result.exit_code == 2, verb
        assert "must hold the weights of this backbone" in result.stderr, verb


@pytest.mark.parametrize(
    "words",
    [["mine"], ["quickstart", "--name", "mine"], ["quickstart", "--set", "name=mine"]],
    ids=" ".join,
)
def test_a_study_is_resumed_by_its_name_however_it_is_said(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "studies" / "mine"
    home.mkdir(parents=True)
    values = quickstart() | {"name": "mine", "epochs": 3, "lr_step": None}
    (home / CONFIG).write_text(config_yaml(make(values)))
    found: list[StudyConfig] = []

    def prepare(config: StudyConfig, **options: object) -> None:
        found.append(config)
        raise ValueError("enough")

    monkeypatch.setattr(run, "prepare", prepare)
    place = ["--resume", "--set", f"studies={tmp_path / 'studies'}"]
    assert "enough" in CliRunner().invoke(app, ["run", *words, *place]).stderr
    (config,) = found
    assert (config.name, config.epochs) == ("mine", 3), "the config of the study itself"


def test_an_unreachable_tracking_server_ends_with_exit_4(tmp_path: Path) -> None:
    options = ["--set", "tracking_uri=http://127.0.0.1:9", "--set", f"studies={tmp_path}/studies"]
    result = CliRunner().invoke(app, ["run", "quickstart", *options])
    assert result.exit_code == 4
    assert "did not answer" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_list_reads_well_and_speaks_json(kind: str) -> None:
    plain = CliRunner().invoke(app, ["list", kind])
    entries = json.loads(CliRunner().invoke(app, ["list", kind, "--json"]).stdout)
    assert plain.exit_code == 0
    assert entries
    assert all(name in plain.stdout and entry["about"] for name, entry in entries.items())
    assert not any("\n" in entry["about"] for entry in entries.values())


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_a_card_shows_its_text_in_full(name: str) -> None:
    card = LOSSES[name]
    shown = CliRunner(env={"COLUMNS": "2000"}).invoke(app, ["list", "losses", name]).stdout
    notes = [card.note, *(param.note for param in card.params.values())]
    assert all(text in shown for text in (card.cite, card.about, *notes))


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_the_shown_config_is_yaml_that_gives_the_same_config(preset: str, tmp_path: Path) -> None:
    own = [word for each in own_data(tmp_path).get(preset, []) for word in ("--set", each)]
    words = ["config", "show", preset, "--set", "seed=3", "--name", "other", *own]
    shown = CliRunner().invoke(app, words).stdout
    path = tmp_path / "study.yaml"
    path.write_text(shown)
    again = CliRunner().invoke(app, ["config", "show", str(path)]).stdout
    assert yaml.safe_load(again) == yaml.safe_load(shown)
    assert "# --set" in shown
    assert f"# preset {preset}" in shown
    assert f"# file {path}" in again


def test_config_keys_lists_every_key_with_its_default_and_description_in_full() -> None:
    from study.config.study_config import StudyConfig

    shown = CliRunner(env={"COLUMNS": "2000"}).invoke(app, ["config", "keys"]).stdout
    by_key = {line.split()[0]: line for line in shown.splitlines() if line.split()}
    for key, field in StudyConfig.model_fields.items():
        assert (field.description or "") in by_key[key]
        if isinstance(field.default, tuple):
            assert f"[{', '.join(map(str, field.default))}]" in by_key[key]


def test_plan_counts_the_quickstart() -> None:
    plan = json.loads(CliRunner().invoke(app, ["plan", "quickstart", "--json"]).stdout)
    # 10 losses x 2 protocols; 3 replicates of 10 searched cells x 8 trials, and of 20 final trials;
    # pixels and pooled features once.
    assert (
        plan["cells"],
        plan["search_trials"],
        plan["final_trials"],
        plan["baseline_trials"],
    ) == (20, 240, 60, 2)
    # Stopping at 2 and 4 of 8 epochs leaves 2 + 2/2 + 4/4 = 4 epochs a search trial; the first of
    # each search is never stopped.
    assert plan["epochs"] == [3 * (10 * 8 + 70 * 4) + 60 * 8, 300 * 8]
    assert plan["model_epochs"] == plan["epochs"]
    assert len(plan["plan"]) == plan["cells"]
    assert 0 < plan["estimate"]["worker_hours"][0] <= plan["estimate"]["worker_hours"][1]
    assert plan["estimate"]["seconds"][0] > 0
    assert plan["estimate"]["disk_bytes"] > 0


def test_plan_needs_neither_data_nor_weights_to_count() -> None:
    plan = json.loads(CliRunner().invoke(app, ["plan", "reality_check", "--json"]).stdout)
    assert (plan["cells"], plan["search_trials"], plan["final_trials"]) == (42, 2100, 420)
    assert plan["model_epochs"] == [4 * epochs for epochs in plan["epochs"]]
    assert plan["estimate"]["worker_hours"] is None
    assert "not here yet" in plan["estimate"]["unknown"]


def test_plan_reads_well(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "study", "plan", "quickstart", "--smoke"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stderr == ""
    shown = done.stdout
    assert "20 cells, 20 search trials, 20 final trials, 2 baselines" in shown
    assert "minutes" in shown
    assert "Settings with which" not in shown


def test_plan_shows_on_request_with_which_settings_each_search_begins() -> None:
    words = ["plan", "quickstart", "--smoke", "--set", "losses=triplet,margin", "--settings"]
    shown = CliRunner().invoke(app, words).stdout
    assert "triplet  margin=0.1\n" in shown
    assert "margin   beta=1.2  margin=0.2  weights_lr=5e-05" in shown
    found = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert found["first_settings"]["triplet"][0] == {"loss.margin": 0.1}


def test_train_runs_one_cell_here_and_keeps_the_test_classes_closed() -> None:
    result = CliRunner().invoke(
        app, ["train", "quickstart", "--smoke", "--cell", "triplet/fixed_validation"]
    )
    assert result.exit_code == 0
    assert result.stdout.count("epoch ") == 2
    assert "test" not in result.stdout


def test_train_with_final_reads_the_test_classes_and_marks_what_peeks() -> None:
    honest, peeking = (
        CliRunner()
        .invoke(
            app, ["train", "quickstart", "--smoke", "--final", "--cell", f"contrastive/{protocol}"]
        )
        .stdout
        for protocol in ("fixed_validation", "default")
    )
    assert "test at epoch" in honest
    assert "test feedback" not in honest
    assert "chosen with test feedback" in peeking.splitlines()[-2]


def test_doctor_finds_this_machine_good(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["doctor", "--studies", str(tmp_path)])
    assert result.exit_code == 0, result.stdout
    assert "All good." in result.stdout


def test_doctor_says_what_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hyperopt", None)
    result = CliRunner().invoke(app, ["doctor", "--studies", str(tmp_path)])
    assert result.exit_code == 4
    assert "FAIL  hyperopt" in result.stdout


def test_doctor_says_that_ray_is_open_to_everyone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = {
        "eth0": [
            SimpleNamespace(family=socket.AF_INET, address=address)
            for address in ("127.0.0.1", "192.168.0.1", "8.8.8.8")
        ]
    }
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: addresses)
    monkeypatch.setattr(doctor, "_answers", lambda address, port: port == 6379)
    with pytest.raises(PermissionError, match=r"reach Ray at 8\.8\.8\.8:6379;"):
        doctor._ports()


def test_the_console_script_and_the_module_are_the_same(tmp_path: Path) -> None:
    module = subprocess.run(
        [sys.executable, "-m", "study", "--help"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    script = subprocess.run(
        [str(Path(sys.executable).parent / "fairtrial"), "--help"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert module.stdout == script.stdout
    assert "run" in script.stdout

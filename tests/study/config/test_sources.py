"""Presets, files, --smoke, --name and --set, in this order; each value knows where it came from."""

from pathlib import Path

import pytest
import yaml

from study.config.plan import expand
from study.config.sources import resolve
from study.presets import PRESETS, SMOKE
from tests.support.studies import own_data


def test_set_wins_over_smoke_and_smoke_over_the_preset() -> None:
    resolved = resolve("quickstart", smoke=True, sets=["epochs=3"])
    assert resolved.config.epochs == 3
    assert resolved.config.reproductions == SMOKE["reproductions"]
    assert resolved.origins["epochs"] == "--set"
    assert resolved.origins["reproductions"] == "--smoke"
    assert resolved.origins["losses"] == "preset quickstart"
    assert resolved.origins["split_seed"] == "default"


def test_a_smoke_study_has_a_name_of_its_own_unless_given_one() -> None:
    assert resolve("quickstart", smoke=True).config.name == "quickstart-smoke"
    assert resolve("quickstart", smoke=True, name="mine").config.name == "mine"


def test_set_reaches_into_the_settings_of_a_loss() -> None:
    config = resolve(
        "quickstart", sets=["settings.triplet.margin=0.3", "settings.contrastive.margin=0.4"]
    ).config
    plan = expand(config)
    assert plan.published("triplet") == {"loss.margin": 0.3}
    assert plan.published("contrastive") == {"loss.margin": 0.4}
    assert plan.published("proxy_anchor")["loss.alpha"] == 32


@pytest.mark.parametrize(
    ("item", "key", "value"),
    [
        ("learning_rate=1e-4", "learning_rate", 1e-4),
        ("losses=triplet,contrastive", "losses", ("triplet", "contrastive")),
        ("steps_per_epoch=", "steps_per_epoch", None),
        ("flip=true", "flip", True),
        ("losses=[triplet]", "losses", ("triplet",)),
    ],
)
def test_values_are_read_as_yaml(item: str, key: str, value: object) -> None:
    assert getattr(resolve("quickstart", sets=[item]).config, key) == value


@pytest.mark.parametrize("item", ["epochs.x=3", "losses.x=1", "name.a.b=2"])
def test_only_settings_has_parts(item: str) -> None:
    with pytest.raises(ValueError, match="takes one value and has no part"):
        resolve("quickstart", sets=[item])


@pytest.mark.parametrize("item", ["epochs", "=3"])
def test_set_needs_key_and_value(item: str) -> None:
    with pytest.raises(ValueError, match="--set takes key=value"):
        resolve("quickstart", sets=[item])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("losses: [", "cannot be read as YAML"),
        ("- a\n- b", "must hold keys and values"),
        ("!!python/object:os.system {}", "cannot be read as YAML"),
        ("epocs: 3", "Unknown key 'epocs'"),
        (
            "epochs: 3\nname: x\nepochs: 4",
            ("the key 'epochs' appears in line 1 and again in line 3; leave one"),
        ),
        (
            "settings: {triplet: {margin: 0.1, margin: 0.2}}",
            ("the key 'margin' appears in line 1 and again in line 1"),
        ),
    ],
)
def test_a_bad_file_is_refused_in_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(ValueError, match=sentence) as error:
        resolve(str(tmp_path / "bad.yaml"))
    assert "\n" not in str(error.value)


def test_a_missing_file_and_an_unknown_preset_are_named() -> None:
    with pytest.raises(ValueError, match=r"There is no file nowhere\.yaml"):
        resolve("nowhere.yaml")
    with pytest.raises(ValueError, match="Did you mean 'quickstart'"):
        resolve("quikstart")


@pytest.mark.parametrize("name", sorted(PRESETS))
@pytest.mark.parametrize("smoke", [False, True])
def test_every_preset_survives_a_round_trip_through_yaml(
    tmp_path: Path, name: str, smoke: bool
) -> None:
    config = resolve(
        name, sets=[] if smoke else own_data(tmp_path).get(name, []), smoke=smoke
    ).config
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(config.model_dump(mode="json")))
    assert resolve(str(path)).config == config

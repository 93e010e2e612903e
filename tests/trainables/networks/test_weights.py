"""Weight files: where they are, how they are fetched, which trunk they fit."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch

from trainables.fetch import home
from trainables.networks.backbones import BACKBONES, WeightFile
from trainables.networks.weights import (
    check_channels,
    check_weights,
    fetch_weights,
    load_weights,
    weights_path,
)

NAMES = sorted(BACKBONES)
PRETRAINED = [name for name in NAMES if BACKBONES[name].weights]
PUBLISHED = [name for name in PRETRAINED if BACKBONES[name].weights.url]


@pytest.fixture(autouse=True)
def _own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("FAIRTRIAL_DATA", str(tmp_path / "home"))


class Server(SimpleHTTPRequestHandler):
    asked: list[str] = []  # noqa: RUF012

    def do_GET(self) -> None:
        self.asked.append(self.path)
        super().do_GET()

    def log_message(self, *args: object) -> None:
        """Print nothing."""


@pytest.fixture
def published(tmp_path, monkeypatch) -> Iterator[Path]:
    """Weights for tiny on a server of our own; what is published there can be changed."""
    (tmp_path / "web").mkdir()
    served = tmp_path / "web" / "tiny.pth"
    torch.save(state("tiny"), served)
    Server.asked.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Server, directory=str(served.parent)))
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    ).start()
    file = WeightFile(
        "tiny.pth",
        lambda: f"http://127.0.0.1:{server.server_port}/tiny.pth",
        "sha256:" + digest(served)[:8],
    )
    monkeypatch.setitem(BACKBONES, "tiny", replace(BACKBONES["tiny"], weights=file))
    yield served
    server.shutdown()
    server.server_close()


def digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def state(name: str, seed: int = 0) -> dict[str, torch.Tensor]:
    torch.manual_seed(seed)
    return BACKBONES[name].build(3)[0].state_dict()


def save(tmp_path: Path, content: object) -> Path:
    torch.save(content, tmp_path / "given.pth")
    return tmp_path / "given.pth"


def test_a_file_lies_at_home_or_where_it_was_given(tmp_path):
    assert weights_path("resnet50", "none") is None
    assert weights_path("resnet50", "imagenet") == home() / "weights" / "resnet50-0676ba61.pth"
    assert (
        weights_path("bn_inception", "imagenet")
        == home() / "weights" / "bn_inception-52deb4733.pth"
    )
    assert weights_path("resnet50", str(tmp_path / "my.pth")) == tmp_path / "my.pth"


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_wanted_with_none(name):
    check_weights(name, "none")
    fetch_weights(name, "none")
    assert not home().exists()


@pytest.mark.parametrize("name", PRETRAINED)
def test_a_check_fetches_nothing(name):
    check_weights(name, "pretrained")
    assert not home().exists()


@pytest.mark.parametrize("name", PUBLISHED)
def test_imagenet_is_another_word_for_what_was_published(name):
    check_weights(name, "imagenet")
    assert weights_path(name, "imagenet") == weights_path(name, "pretrained")
    assert weights_path(name, "pretrained").parent == home() / "weights"


@pytest.mark.parametrize("weights", ["imagenet", "pretrained"])
def test_a_backbone_without_pretrained_weights_says_so(weights):
    with pytest.raises(ValueError, match=f"tiny has no {weights} weights; use weights=none"):
        check_weights("tiny", weights)


def test_weights_that_ship_are_not_imagenets():
    for ask in (check_weights, fetch_weights, weights_path):
        with pytest.raises(ValueError, match=r"small has no imagenet weights.*=pretrained"):
            ask("small", "imagenet")


def test_weights_that_ship_are_where_the_package_is_and_nothing_is_fetched():
    fetch_weights("small", "pretrained")
    assert weights_path("small", "pretrained").is_file()
    assert not home().exists()


def test_a_shipped_file_that_was_changed_is_refused(monkeypatch):
    file = replace(BACKBONES["small"].weights, checksum="sha256:" + 8 * "0")
    monkeypatch.setitem(BACKBONES, "small", replace(BACKBONES["small"], weights=file))
    with pytest.raises(ValueError, match=r"small-.* has the sha256 .*: it was changed .*anew"):
        fetch_weights("small", "pretrained")


def test_weights_for_drawings_do_not_take_coloured_images(tmp_path):
    with pytest.raises(ValueError, match="take images of 1 channel, but those of cub200 have 3"):
        check_channels("small", "pretrained", dataset="cub200", channels=3)
    check_channels("small", "pretrained", dataset="sketches", channels=1)
    check_channels("small", "none", dataset="cub200", channels=3)
    check_channels("small", str(tmp_path / "my.pth"), dataset="cub200", channels=3)
    check_channels("resnet18", "pretrained", dataset="sketches", channels=1)


def test_pixels_take_no_weights_at_all(tmp_path):
    for weights in ("imagenet", "pretrained", str(save(tmp_path, {}))):
        with pytest.raises(ValueError, match=r"pixels has nothing to load .* use weights=none"):
            check_weights("pixels", weights)


def test_a_given_file_must_exist(tmp_path):
    with pytest.raises(
        ValueError,
        match=r"weights=imagnet must be pretrained, imagenet, none or a file, but there is no file "
        r".*imagnet",
    ):
        check_weights("resnet18", "imagnet")
    check_weights("resnet18", str(save(tmp_path, {})))


def test_published_weights_are_fetched_once_and_fit(published):
    for _ in range(2):
        fetch_weights("tiny", "imagenet")
    path = weights_path("tiny", "imagenet")
    assert path.read_bytes() == published.read_bytes()
    assert Server.asked == ["/tiny.pth"]
    trunk, _ = BACKBONES["tiny"].build(3)
    load_weights(trunk, path)
    expected = state("tiny")
    assert all(torch.equal(value, expected[key]) for key, value in trunk.state_dict().items())


def test_workers_of_a_node_fetch_together_what_one_fetches(published):
    workers = [threading.Thread(target=fetch_weights, args=("tiny", "imagenet")) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert Server.asked == ["/tiny.pth"]
    assert weights_path("tiny", "imagenet").read_bytes() == published.read_bytes()


def test_a_file_that_was_replaced_on_the_way_is_not_kept(published):
    published.write_bytes(b"something else")
    with pytest.raises(ValueError, match="sha256"):
        fetch_weights("tiny", "imagenet")
    assert not weights_path("tiny", "imagenet").exists()


def test_offline_the_sentence_says_where_to_put_the_file(monkeypatch):
    file = replace(
        BACKBONES["resnet18"].weights, url=lambda: "http://127.0.0.1:9/resnet18-f37072fd.pth"
    )
    monkeypatch.setitem(BACKBONES, "resnet18", replace(BACKBONES["resnet18"], weights=file))
    with pytest.raises(ConnectionError) as error:
        fetch_weights("resnet18", "imagenet")
    assert f"put the file at {weights_path('resnet18', 'imagenet')} yourself" in str(error.value)
    assert str(error.value).count("\n") == 0


def test_a_file_that_somebody_put_there_is_checked_and_left_alone(published):
    path = weights_path("tiny", "imagenet")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"the wrong one")
    with pytest.raises(ValueError, match=f"{path.name} has the sha256 .* remove"):
        fetch_weights("tiny", "imagenet")
    assert path.read_bytes() == b"the wrong one"
    assert not Server.asked


def test_the_classifier_of_a_file_is_left_out(tmp_path):
    for classifier in ("fc", "last_linear", "aux1.fc1"):
        content = state("tiny", 1) | {f"{classifier}.weight": torch.zeros(2, 2)}
        trunk, _ = BACKBONES["tiny"].build(3)
        load_weights(trunk, save(tmp_path, content))
        assert all(torch.equal(value, content[key]) for key, value in trunk.state_dict().items())


def test_wrapped_states_and_safetensors_are_read_too(tmp_path):
    from safetensors.torch import save_file

    content = state("tiny", 1)
    save_file(content, tmp_path / "tiny.safetensors")
    for path in (
        save(tmp_path, {"state_dict": content, "epoch": 3}),
        tmp_path / "tiny.safetensors",
    ):
        trunk, _ = BACKBONES["tiny"].build(3)
        load_weights(trunk, path)
        assert all(torch.equal(value, content[key]) for key, value in trunk.state_dict().items())


def test_old_files_with_a_leading_dimension_and_without_batch_counts_fit(tmp_path):
    content = state("bn_inception", 1)
    old = {
        key: value[None] if "bn" in key else value
        for key, value in content.items()
        if not key.endswith("num_batches_tracked")
    }
    trunk, _ = BACKBONES["bn_inception"].build(3)
    load_weights(
        trunk,
        save(
            tmp_path,
            old
            | {
                "last_linear.weight": torch.zeros(1000, 1024),
                "last_linear.bias": torch.zeros(1000),
            },
        ),
    )
    assert all(torch.equal(value, content[key]) for key, value in trunk.state_dict().items())


def test_a_file_that_lacks_something_says_what(tmp_path):
    content = state("resnet18")
    del content["conv1.weight"], content["layer4.1.bn2.running_var"]
    trunk, _ = BACKBONES["resnet18"].build(3)
    before = {key: value.clone() for key, value in trunk.state_dict().items()}
    with pytest.raises(
        ValueError,
        match=(
            r"given.pth must hold the weights of this backbone, but it lacks conv1.weight and 1 "
            r"more\.$"
        ),
    ):
        load_weights(trunk, save(tmp_path, content))
    assert all(torch.equal(value, before[key]) for key, value in trunk.state_dict().items())


def test_the_weights_of_a_deeper_network_do_not_fit_though_every_name_is_there(tmp_path):
    with pytest.raises(ValueError, match=r"it also holds layer1\.2\.conv1\.weight and \d+ more"):
        load_weights(BACKBONES["resnet18"].build(3)[0], save(tmp_path, state("resnet34")))


def test_weights_of_another_shape_do_not_fit(tmp_path):
    with pytest.raises(ValueError, match=r"it has another shape for 1\.weight"):
        load_weights(BACKBONES["tiny"].build(1)[0], save(tmp_path, state("tiny")))


class Intruder:
    def __reduce__(self):
        return (Path.touch, (Path("intruder"),))


def test_code_in_a_file_is_never_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="must be a file of plain tensors"):
        load_weights(BACKBONES["tiny"].build(3)[0], save(tmp_path, {"1.weight": Intruder()}))
    assert not (tmp_path / "intruder").exists()


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>"])
@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_what_is_no_weight_file_is_one_sentence(tmp_path, content, suffix):
    (tmp_path / f"broken{suffix}").write_bytes(content)
    with pytest.raises(
        ValueError, match=f"broken{suffix} must be a file of plain tensors"
    ) as error:
        load_weights(BACKBONES["tiny"].build(3)[0], tmp_path / f"broken{suffix}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [[torch.zeros(1)], {"epoch": 3}, torch.zeros(2)])
def test_a_file_of_something_else_is_one_sentence(tmp_path, content):
    with pytest.raises(ValueError, match="must be a dictionary of tensors"):
        load_weights(BACKBONES["tiny"].build(3)[0], save(tmp_path, content))


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(ValueError, match=r"There is no weight file .*gone.pth; put it there"):
        load_weights(BACKBONES["tiny"].build(3)[0], tmp_path / "gone.pth")

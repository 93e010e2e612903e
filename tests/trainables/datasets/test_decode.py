"""Every kind of image file becomes upright RGB; the error of a broken one names the file."""

from __future__ import annotations

import pickle
import shlex
import struct
import zlib
from contextlib import suppress

import numpy as np
import pytest
from PIL import Image

from study.config.sources import _parse
from trainables.datasets.decode import (
    SUFFIXES,
    BrokenImageError,
    decode,
    leave_out,
    resize_shorter_side,
)

RED, GREEN, BLUE, WHITE, BLACK = (254, 0, 0), (0, 128, 0), (0, 0, 254), (255, 255, 255), (0, 0, 0)


def quarters(size=64):
    """Red and green above blue and white: any turn or flip shows."""
    image = Image.new("RGB", (size, size), WHITE)
    half = size // 2
    for colour, corner in ((RED, (0, 0)), (GREEN, (half, 0)), (BLUE, (0, half))):
        image.paste(colour, (*corner, corner[0] + half, corner[1] + half))
    return image


def near(image, colours, tolerance=12):
    size = image.width
    places = [
        (size // 4, size // 4),
        (3 * size // 4, size // 4),
        (size // 4, 3 * size // 4),
        (3 * size // 4, 3 * size // 4),
    ]
    found = [image.getpixel(place) for place in places]
    return all(
        abs(a - b) <= tolerance
        for pixel, colour in zip(found, colours, strict=True)
        for a, b in zip(pixel, colour, strict=True)
    )


@pytest.mark.parametrize("suffix", sorted(SUFFIXES))
def test_every_suffix_that_counts_as_an_image_is_one(suffix, tmp_path):
    image = quarters().convert("L") if suffix == ".pgm" else quarters()
    image.save(tmp_path / f"ä b{suffix}")
    found = decode(tmp_path, f"ä b{suffix}")
    assert (found.mode, found.size) == ("RGB", (64, 64))


@pytest.mark.parametrize("suffix", [".jpg", ".tif"])
def test_cmyk_has_the_colours_it_had(suffix, tmp_path):
    quarters().convert("CMYK").save(tmp_path / f"x{suffix}", quality=95)
    assert Image.open(tmp_path / f"x{suffix}").mode == "CMYK"
    # As Photoshop writes it: upside down.
    assert suffix == ".tif" or b"Adobe" in (tmp_path / "x.jpg").read_bytes()
    assert near(decode(tmp_path, f"x{suffix}"), (RED, GREEN, BLUE, WHITE))


@pytest.mark.parametrize("mode", ["L", "1"])
def test_grey_and_black_and_white_become_three_equal_channels(mode, tmp_path):
    quarters().convert(mode).save(tmp_path / "x.png")
    pixels = np.asarray(decode(tmp_path, "x.png"))
    assert pixels.shape == (64, 64, 3)
    assert (pixels == pixels[..., :1]).all()
    assert pixels[-1, -1, 0] == 255


@pytest.mark.parametrize("suffix", [".png", ".tif", ".pgm"])
def test_16_bits_are_scaled_and_not_cut(suffix, tmp_path):
    ramp = np.linspace(0, 65535, 64).astype(np.uint16)[None].repeat(64, 0)
    if suffix == ".pgm":
        (tmp_path / "x.pgm").write_bytes(b"P5 64 64 65535\n" + ramp.astype(">u2").tobytes())
    else:
        Image.fromarray(ramp).save(tmp_path / f"x{suffix}")
    found = np.asarray(decode(tmp_path, f"x{suffix}"))[0, :, 0]
    assert np.abs(found - np.linspace(0, 255, 64)).max() <= 1


def test_16_bits_of_the_other_byte_order_are_the_same(tmp_path):
    ramp = np.linspace(0, 65535, 64).astype(">u2")[None].repeat(64, 0)
    Image.frombytes("I;16B", (64, 64), ramp.tobytes()).save(tmp_path / "x.tif")
    assert (
        np.abs(np.asarray(decode(tmp_path, "x.tif"))[0, :, 0] - np.linspace(0, 255, 64)).max() <= 1
    )


def test_16_bits_with_a_transparent_value_decode(tmp_path):
    ramp = np.linspace(0, 65535, 64).astype(np.uint16)[None].repeat(64, 0)
    Image.fromarray(ramp).save(tmp_path / "x.png", transparency=65535)
    assert np.asarray(decode(tmp_path, "x.png"))[0, -1].tolist() == [255, 255, 255]


@pytest.mark.parametrize(
    "values",
    [
        np.full((8, 8), 0.5, np.float32),
        np.full((8, 8), 70_000, np.int32),
        np.full((8, 8), -5, np.int32),
    ],
)
def test_pixels_without_a_known_white_are_refused(values, tmp_path):
    Image.fromarray(values).save(tmp_path / "x.tif")
    with pytest.raises(BrokenImageError, match="nothing says which one is white"):
        decode(tmp_path, "x.tif")


@pytest.mark.parametrize("suffix", [".png", ".webp", ".tif"])
def test_what_is_transparent_shows_the_paper_and_never_what_lies_under_it(suffix, tmp_path):
    image = quarters().convert("RGBA")
    image.putalpha(Image.fromarray(np.repeat([[255] * 32 + [0] * 32], 64, 0).astype(np.uint8)))
    image.save(tmp_path / f"x{suffix}", lossless=True)
    assert near(decode(tmp_path, f"x{suffix}"), (RED, WHITE, BLUE, WHITE))


def test_transparent_grey_palette_and_colour_keys_show_the_paper_too(tmp_path):
    Image.new("LA", (64, 64), (0, 0)).save(tmp_path / "la.png")
    Image.new("L", (64, 64), 9).save(tmp_path / "key.png", transparency=9)
    Image.new("RGB", (64, 64), RED).save(tmp_path / "rgb.png", transparency=RED)
    palette = quarters().quantize(8)
    palette.save(tmp_path / "p.png")
    palette.save(tmp_path / "t.gif", transparency=palette.getpixel((5, 5)))
    for name in ("la.png", "key.png", "rgb.png"):
        assert near(decode(tmp_path, name), [WHITE] * 4), name
    assert near(decode(tmp_path, "p.png"), (RED, GREEN, BLUE, WHITE))
    assert near(decode(tmp_path, "t.gif"), (WHITE, GREEN, BLUE, WHITE))


TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp"])
def test_an_image_that_exif_turns_is_upright(orientation, suffix, tmp_path):
    upright = quarters().resize((64, 64))
    # What EXIF says is how to turn the stored image back, so it is stored the other way round.
    stored = upright if orientation == 1 else upright.transpose(TURNS[orientation])
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored.save(tmp_path / f"x{suffix}", exif=exif, quality=95)
    assert near(decode(tmp_path, f"x{suffix}"), (RED, GREEN, BLUE, WHITE), tolerance=25)


def test_a_turned_oblong_has_its_sides_swapped(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (40, 20)).save(tmp_path / "x.jpg", exif=exif)
    assert decode(tmp_path, "x.jpg").size == (20, 40)


def test_of_an_animation_the_first_picture_counts(tmp_path):
    Image.new("RGB", (64, 64), RED).save(
        tmp_path / "x.gif", save_all=True, append_images=[Image.new("RGB", (64, 64), BLUE)]
    )
    assert near(decode(tmp_path, "x.gif"), [RED] * 4)


def png(*chunks):
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body


HEAD = (b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0))
BOMB = (b"IHDR", struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0))


def half_a_jpeg(path):
    quarters(256).save(path, "JPEG")
    path.write_bytes(path.read_bytes()[:-900])


BROKEN = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("<html>404 Not Found</html>"),
    "half": half_a_jpeg,
    "png-without-pixels": lambda path: path.write_bytes(png(HEAD, (b"IEND", b""))),
    "png-with-bad-pixels": lambda path: path.write_bytes(
        png(HEAD, (b"IDAT", b"nonsense"), (b"IEND", b""))
    ),
    "bomb": lambda path: path.write_bytes(png(BOMB, (b"IDAT", b""), (b"IEND", b""))),
    "folder": lambda path: path.mkdir(),
    "gone": lambda path: None,
}


@pytest.mark.parametrize("kind", sorted(BROKEN))
def test_a_broken_image_is_reported_with_its_name_and_how_to_leave_it_out(kind, tmp_path):
    folder = tmp_path / "Größe"
    folder.mkdir()
    BROKEN[kind](folder / 'a, b\'s "c".jpg')
    with pytest.raises(BrokenImageError) as error:
        decode(tmp_path, 'Größe/a, b\'s "c".jpg')
    said = str(error.value)
    assert said.startswith('The image Größe/a, b\'s "c".jpg cannot be decoded (')
    assert str(tmp_path) not in said
    assert "\n" not in said
    assert leave_out(['Größe/a, b\'s "c".jpg']) in said
    # The error survives the way from another process.
    assert str(pickle.loads(pickle.dumps(error.value))) == said


@pytest.mark.filterwarnings("ignore:.*(Tag|EXIF|TIFF)")
def test_random_damage_gives_an_image_or_a_sentence(tmp_path):
    random = np.random.default_rng(0)
    for suffix in (".jpg", ".png", ".gif", ".tif", ".webp", ".bmp"):
        quarters().save(tmp_path / f"good{suffix}")
        good = (tmp_path / f"good{suffix}").read_bytes()
        for _ in range(60):
            bad = bytearray(good)
            for at in random.integers(0, len(bad), 4):
                bad[at] = random.integers(256)
            (tmp_path / f"bad{suffix}").write_bytes(bad[: random.integers(1, len(bad) + 1)])
            with suppress(BrokenImageError):
                assert decode(tmp_path, f"bad{suffix}").mode == "RGB"


@pytest.mark.parametrize(
    "files",
    [
        ["a.jpg"],
        ["a b.jpg", "c, d.jpg"],
        [
            "it's.jpg",
            'say "x".jpg',
            "a#b: {c} [d].jpg",
            "back\\slash.jpg",
            "$HOME `x` !y.jpg",
            "%&*?|>-.jpg",
        ],
        [
            "Größe/Maß.jpg",
            "日本.jpg",
            "🦉.jpg",
            "e\u0301.jpg",
            "tab\t.jpg",
            "line\nbreak.jpg",
            "\u2028 \x7f \x85.jpg",
        ],
        ["null", "1", "true", "~", "- x", ""],
        [f"a rather long folder name/{i} with spaces.jpg" for i in range(100)],
    ],
)
def test_the_exclude_option_survives_shell_and_yaml(files):
    words = shlex.split(leave_out(files))
    assert words[0] == "--set"
    assert _parse(words[1]) == (["exclude"], files)


@pytest.mark.parametrize(
    ("size", "wanted"),
    [((40, 20), (20, 10)), ((20, 40), (10, 20)), ((5, 5), (10, 10)), ((33, 10), (33, 10))],
)
def test_shrink_makes_the_shorter_side_what_it_should_be(size, wanted):
    assert resize_shorter_side(Image.new("RGB", size), 10).size == wanted

"""A figure's file depends on what it shows, not on the last digits of its layout."""

import pickle

from analysis.figures.style import Drawing, styled_figure


def drawn(shift: float) -> str:
    with styled_figure(2) as figure:
        figure.set_layout_engine(None)
        axis = figure.add_axes((0.1 + shift, 0.1, 0.8, 0.8))
        axis.plot([0, 1], [0, 1])
        return Drawing("one", "a line", figure).vector


def test_a_layout_that_differs_by_rounding_gives_the_same_file():
    assert "clip-path" in drawn(0)
    assert drawn(0) == drawn(1e-14)


def test_a_layout_that_differs_gives_another_file():
    assert drawn(0) != drawn(0.05)


def test_a_drawing_that_went_to_another_process_gives_the_same_files(tmp_path):
    with styled_figure(2, width=5) as figure:
        figure.subplots().plot([0, 1], [0, 1])
        drawing = Drawing("one", "a line", figure)
    there = pickle.loads(pickle.dumps(drawing))
    assert there.figure is None
    assert there.inline() == drawing.inline()
    for mine, theirs in zip(drawing.save(tmp_path / "a"), there.save(tmp_path / "b"), strict=True):
        assert mine.read_bytes() == theirs.read_bytes()

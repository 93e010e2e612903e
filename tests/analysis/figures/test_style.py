"""A figure's file depends on what it shows, not on the last digits of its layout."""

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

"""Draws the figures that the documentation shows, from the lessons they belong to.

    python docs/figures/draw.py

`film-map.svg` is drawn by examples/film_map.py, since it needs the MovieLens data.
"""

from pathlib import Path

from glassformer.lessons import make_lesson

HERE = Path(__file__).parent
FIGURES: dict[str, tuple[str, ...]] = {
    "illustrated": ("keys", "scores", "softmax", "repeat"),
    "roles": ("key-query-value", "roles"),
    "multi-head": ("heads", "reshape", "stages"),
    "masked": ("mask", "pipeline"),
    "thrones": ("translation",),
    "roses": ("gave",),
    "classifier": ("block", "classifier"),
    "by-hand": ("architecture-encoder", "feed-forward", "strip"),
    "films": ("map",),
}


def drawn() -> dict[str, str]:
    """The files by name, with what should stand in them."""
    return {
        f"{lesson}-{figure.name}.svg": figure.drawing.svg()
        for lesson, wanted in FIGURES.items()
        for figure in make_lesson(lesson, "en").figures()
        if figure.name in wanted
    }


if __name__ == "__main__":
    for name, svg in drawn().items():
        (HERE / name).write_text(svg, encoding="utf-8", newline="\n")

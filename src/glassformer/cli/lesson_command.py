"""`glassformer lesson`: a worked example, step by step, written from its trace."""

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from glassformer.cli.output import Format, check_format, check_place
from glassformer.errors import ConfigError
from glassformer.language import spoken, words

say = words("glassformer.cli.messages")


def lesson(
    name: str | None = None,
    /,
    *,
    to: Literal[Format, "json", "svg"] | None = None,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    off: Annotated[list[str] | None, Parameter(name="--off")] = None,
) -> None:
    """Walk through a worked example in numbered steps; without a name, list the lessons."""
    from glassformer.documents import render, render_text
    from glassformer.documents.renderer import SUFFIXES
    from glassformer.lessons import LESSONS, make_lesson

    figures = to == "svg" or (output is not None and output.suffix == ".svg")
    if off and name != "switches":
        raise ConfigError("only the lesson switches takes --off")
    options = {"off": off} if off else {}
    if figures:
        _write_figures([name] if name is not None else list(LESSONS), output, options)
        return
    if name is None:
        if to is not None or output is not None:
            raise ConfigError("expected the name of a lesson beside --to or -o")
        width = max(map(len, LESSONS))
        for key, entry in LESSONS.items():
            sys.stdout.write(f"{key:<{width}}  {entry.summary.say(spoken())}\n")
        return
    chosen = to or (SUFFIXES.get(output.suffix.lower()) if output is not None else None)
    if chosen is None and output is not None:
        raise ConfigError(
            "{output}: expected a file that ends in {endings}; or name the format with --to",
            output=output,
            endings=", ".join(SUFFIXES),
        )
    check_format(chosen or "terminal", output)
    check_place(output)
    made = make_lesson(name, spoken(), **options)
    if output is not None:
        render(made.document(), chosen or "terminal", output)
        sys.stderr.write(f"{say('lesson written', output=output, count=len(made.steps))}\n")
    else:
        sys.stdout.write(render_text(made.document(), chosen or "terminal"))


def _write_figures(names: list[str], output: Path | None, options: dict[str, list[str]]) -> None:
    """The figures of these lessons as files: `FOLDER/LESSON-FIGURE.svg`."""
    from glassformer.documents.renderer import write_figures
    from glassformer.lessons import make_lesson

    if output is None or output.suffix:
        raise ConfigError("figures need a folder: --to svg -o FOLDER")
    for name in names:
        made = make_lesson(name, spoken(), **options)
        if not made.figures():
            sys.stderr.write(f"{say('lesson no figures', name=name)}\n")
            continue
        for file in write_figures(made.document(), output, prefix=f"{name}-"):
            sys.stderr.write(f"{file}\n")

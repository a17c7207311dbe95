"""Markdown and LaTeX."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from glassformer.documents import render_text
from glassformer.tracing import diff, trace
from glassformer.tracing.formula import escaped, number_to_tex
from tests.tracing.operator_examples import EXAMPLES
from tests.tracing.render.toys import TOYS, traced


def test_markdown_of_a_cell_has_formula_terms_and_both_precisions() -> None:
    cell = traced("illustrated")["scores"][1, 2]
    shown = render_text(cell, "md")
    assert "S[1, 2] = Σₖ Q[1, k]·K[2, k]" in shown
    assert f"recomputed in float64: {cell.recomputed:.17g}" in shown
    for term in cell.terms:
        assert f"| {term.value:.4g} |" in shown


def test_markdown_tables_survive_any_token() -> None:
    tokens = ["a|b", "*x*", "</script>", "`c`", "[d](e)", "$f$", "new\nline"]
    t = trace(lambda x: x + 1, torch.ones(7, 1), axis_labels={"x": tokens})
    lines = render_text(t.steps[0], "md").splitlines()
    table = [line for line in lines if line.startswith("|")][:9]
    assert len(table) == 9
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 3 for line in table)
    assert "<" not in "".join(table)
    assert r"\*x\*" in "".join(table) and r"\[d\](e)" in "".join(table)


def test_long_sums_and_large_matrices_say_what_they_leave_out() -> None:
    t = trace(torch.nn.Linear(64, 40), torch.randn(30, 64))
    for shown, other in (
        (render_text(t.steps[0], "md"), "57 more"),
        (render_text(t.steps[0], "tex"), r"\underbrace{\cdots}_{\text{56 more: }"),
    ):
        assert other in shown
        assert re.search(r"… \d+ more columns", shown)
        assert re.search(r"… \d+ more rows", shown)


def test_a_notebook_shows_steps_and_cells_set_in_tex() -> None:
    step = traced("illustrated")["weights"]
    for thing in (step, step[1, 2]):
        assert thing._repr_markdown_() == render_text(thing, "md", tex=True)
        assert "$" in thing._repr_markdown_()


def test_a_notebook_shows_a_trace_as_a_table_of_its_steps() -> None:
    def many(x: torch.Tensor) -> torch.Tensor:
        for _ in range(70):
            x = x + 1
        return x

    t = trace(many, torch.zeros(2))
    shown = t._repr_markdown_().splitlines()
    assert sum(line.startswith("| `x") for line in shown) == 60
    assert shown[-1] == "*… 10 more rows*"
    assert t._repr_markdown_().count("more rows") == 1
    assert "more rows" not in trace(torch.nn.Linear(2, 2), torch.ones(1, 2))._repr_markdown_()


def test_a_prompt_and_a_notebook_show_text_line_by_line() -> None:
    t = trace(lambda x: x + 1, torch.zeros(2))
    explanation = t.steps[0][1].explain()
    assert isinstance(explanation, str)
    changed = diff(t, t.edit({("x", (0,)): 3.0}))
    for thing in (explanation, t.verify(), changed, t.steps[0][1].at_precisions()):
        assert thing._repr_markdown_() == f"```text\n{thing}\n```\n"
        assert repr(thing) == str(thing)


def test_latex_numbers() -> None:
    assert number_to_tex(1.5e-7) == r"1.5 \times 10^{-7}"
    assert number_to_tex(float("-inf")) == r"-\infty"
    assert number_to_tex(float("nan")) == r"\mathrm{NaN}"
    assert escaped("a_b{c}\\%\x07") == "a\\_b\\{c\\}\\textbackslash{}\\%\N{REPLACEMENT CHARACTER}"


def test_latex_of_a_softmax_in_both_languages() -> None:
    cell = traced("illustrated")["weights"][1, 2]
    english, chinese = render_text(cell, "tex"), render_text(cell, "tex", lang="zh")
    assert r"\frac{\exp((S_{\mathrm{scaled}})_{1,2} - m)}{Z}" in english
    assert "xeCJK" not in english and r"\usepackage{xeCJK}" in chinese


def test_latex_says_otherwise_in_both_languages() -> None:
    x, mask = torch.tensor([1.0, 2.0]), torch.tensor([True, False])
    cell = trace(lambda x, mask: x.masked_fill(mask, 0.0), x, mask).steps[-1][1]
    english, chinese = render_text(cell, "tex"), render_text(cell, "tex", lang="zh")
    assert r"0 & \mathrm{mask}_{1}" in english
    assert r"\text{otherwise}" in english and "否则" in chinese


def test_a_fragment_has_no_preamble() -> None:
    step = traced("illustrated")["scores"]
    assert "documentclass" not in render_text(step, "tex", whole=False)


@pytest.mark.parametrize("tex", [False, True])
def test_every_rule_can_be_written(tex: bool) -> None:
    for function in EXAMPLES.values():
        t = trace(function)
        assert render_text(t, "md", tex=tex) and render_text(t, "tex")


@pytest.mark.slow
def test_latex_compiles(tmp_path: Path) -> None:
    """The toys in both languages, and every rule in one document; nothing runs off the page."""
    program = shutil.which("xelatex")
    assert program, "this test needs xelatex: apt-get install texlive-xetex texlive-lang-chinese"
    documents = {
        f"{toy}-{lang}": render_text(traced(toy), "tex", lang=lang)
        for toy in TOYS
        for lang in ("en", "zh")
    }
    made = [step for function in EXAMPLES.values() for step in trace(function).steps]
    steps = [step for step in made if step.role == "activation"]  # not uninitialised memory
    documents["rules"] = render_text(steps, "tex", lang="zh")
    for name, text in documents.items():
        (tmp_path / f"{name}.tex").write_text(text, encoding="utf-8")
        command = [program, "-interaction=nonstopmode", "-halt-on-error", f"{name}.tex"]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=300)
        log = ran.stdout.decode(errors="replace")
        assert ran.returncode == 0, log[-2000:]
        wide = [float(points) for points in re.findall(r"Overfull \\hbox \(([0-9.]+)pt", log)]
        assert max(wide, default=0) < 60, f"{name}: {max(wide)} pt beyond the margin"

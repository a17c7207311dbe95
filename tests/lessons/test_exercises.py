"""The exercises: solutions pass, wrong answers get the hint that names their slip."""

import inspect
import json
import math
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.exercise_hints import written, wrong_answers
from glassformer.errors import ConfigError, UnknownNameError
from glassformer.language import words
from glassformer.lessons import EXERCISES, LESSONS, Exercise, exercise
from glassformer.lessons.exercises import solutions
from glassformer.lessons.exercises.exercise_check import copied, is_same
from glassformer.lessons.exercises.exercise_track import (
    exercise_notebook,
    parts_of,
    signature,
    sizes,
    solution,
    starter,
)

WRONG_ANSWERS = wrong_answers()


@pytest.mark.parametrize("name", EXERCISES)
def test_our_solution_is_right(name: str) -> None:
    task = exercise(name)
    found = task.check(getattr(solutions, task.function))
    assert found.is_right, found
    assert str(found) == f"✓ {name}: right, on all {len(task.cases())} inputs."


def test_there_are_wrong_answers_to_every_exercise() -> None:
    assert {answer["exercise"] for answer in WRONG_ANSWERS} == set(EXERCISES)
    assert len(WRONG_ANSWERS) > 80


@pytest.mark.parametrize(
    "answer", WRONG_ANSWERS, ids=lambda a: f"{a['exercise']}: {', '.join(a['hints'])}"
)
def test_a_wrong_answer_gets_the_right_hint(answer: dict[str, Any]) -> None:
    found = exercise(answer["exercise"]).check(written(answer["code"]))
    assert list(found.hints) == answer["hints"], found


@pytest.mark.parametrize("name", EXERCISES)
def test_our_solution_is_right_in_float64(name: str) -> None:
    """So what an edit of it changes is the slip alone."""
    task = exercise(name)
    for case in task.cases():
        arguments = copied(case, torch.float64)
        assert is_same(task.with_slips()(*arguments), task.reference(*arguments))


@pytest.mark.parametrize("name", EXERCISES)
def test_every_edit_finds_its_place(name: str) -> None:
    task = exercise(name)
    source = "\n\n".join(map(solution, (*parts_of(task.function), task.function)))
    assert [old for edit in task.slips.values() for old in edit if old not in source] == []


@pytest.mark.parametrize("name", EXERCISES)
def test_every_slip_has_a_hint_of_its_own(name: str) -> None:
    """No two slips give the same results on all cases, and each is told in both languages."""
    task = exercise(name)
    for key in task.slips:
        found = task.check(task.with_slips(key))
        assert found.hints == (key,)
        assert found.text == task.slip(key)


def test_every_text_belongs_to_a_slip() -> None:
    known = {module: words(module) for module in EXERCISES.values()}
    used = {module: set() for module in known}  # type: dict[str, set[str]]
    for name, module in EXERCISES.items():
        own = {f"{name} title", f"{name} statement"}
        for key in exercise(name).slips:
            chosen = f"{name} slip {key}"
            own.add(chosen if chosen in known[module] else f"any slip {key}")
        used[module] |= own
    assert used == {module: set(table) for module, table in known.items()}


# --- right in other ways -----------------------------------------------------------------------


def by_torch(
    x: Tensor, source: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, h: int, m: Any = None
) -> Tensor:
    attention = torch.nn.MultiheadAttention(x.size(-1), h, bias=False, batch_first=True)
    attention.in_proj_weight.data = torch.cat([q.T, k.T, v.T])
    attention.out_proj.weight.data = o.T.contiguous()
    shape = (len(x), h, x.size(1), source.size(1))
    hidden = None if m is None else ~m.expand(shape).flatten(0, 1)
    result: Tensor = attention(x, source, source, attn_mask=hidden, need_weights=False)[0]
    return result


def by_einsum(
    x: Tensor, source: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, h: int, m: Any = None
) -> Tensor:
    def heads(w: Tensor) -> Tensor:
        return w.view(len(w), h, -1)

    scores = torch.einsum("btd,bsf,dhe,fhe->bhts", x, source, heads(q), heads(k))
    scores = scores * (x.size(-1) // h) ** -0.5
    if m is not None:
        scores = torch.where(m, scores, -1e9)
    out = o.view(h, -1, len(o))
    return torch.einsum("bhts,bsd,dhe,heo->bto", scores.softmax(-1), source, heads(v), out)


def encoder_by_torch(x: Tensor, p: Any, h: int, m: Tensor | None = None) -> Tensor:
    def norm(y: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
        return F.layer_norm(y, gain.shape, gain, bias)

    a, f = p["attention"], p["feed_forward"]
    y = norm(x + by_torch(x, x, a["W_Q"], a["W_K"], a["W_V"], a["W_O"], h, m), **p["norm_1"])
    hidden = F.relu(F.linear(y, f["W_1"].T, f["b_1"]))
    return norm(y + F.linear(hidden, f["W_2"].T, f["b_2"]), **p["norm_2"])


OTHER_WAYS: list[tuple[str, Callable[..., Any]]] = [
    ("basic", lambda x: torch.einsum("ij,jd->id", torch.einsum("id,jd->ij", x, x).softmax(1), x)),
    ("scores", lambda q, k: torch.einsum("...qe,...ke->...qk", q, k)),
    ("softmax", lambda s: F.softmax(s, dim=-1)),
    ("scaled-scores", lambda q, k: (q * q.size(-1) ** -0.5) @ k.mT),
    ("causal-mask", lambda n: torch.arange(n)[:, None] >= torch.arange(n)),
    ("attention", lambda q, k, v, m=None: F.scaled_dot_product_attention(q, k, v, attn_mask=m)),
    ("split-heads", lambda x, h: torch.stack(x.chunk(h, -1), 1)),
    ("merge-heads", lambda x: torch.cat(list(x.unbind(1)), -1)),
    ("multi-head", by_torch),
    ("multi-head", by_einsum),
    ("layer-norm", lambda x, g, b, eps=1e-5: F.layer_norm(x, g.shape, g, b, eps)),
    ("feed-forward", lambda x, w, b, u, c: F.linear(F.relu(F.linear(x, w.T, b)), u.T, c)),
    ("encoder-layer", encoder_by_torch),
    ("loss", lambda l, ids, pad: F.cross_entropy(
        l[:, :-1].transpose(1, 2), ids[:, 1:], ignore_index=pad)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "answer"), OTHER_WAYS)
def test_a_right_answer_may_be_written_in_any_way(name: str, answer: Callable[..., Any]) -> None:
    found = exercise(name).check(answer)
    assert found.is_right, found


# --- loops in float64, from the definitions ----------------------------------------------------


def test_attention_by_loops() -> None:
    for queries, keys, values, *mask in copied(exercise("attention").cases(), torch.float64):
        right = exercise("attention").reference(queries, keys, values, *mask)
        lead = queries.shape[:-2]
        visible = mask[0] if mask else torch.ones((), dtype=torch.bool)
        visible = visible.expand(*lead, queries.size(-2), keys.size(-2))
        for place in [()] if not lead else list(torch.cartesian_prod(*map(torch.arange, lead))):
            at = tuple(map(int, place))
            for i, query in enumerate(queries[at].tolist()):
                powers = [
                    math.exp(sum(map(float.__mul__, query, key)) / math.sqrt(len(query)))
                    if visible[at][i, j] else 0.0
                    for j, key in enumerate(keys[at].tolist())
                ]  # fmt: skip
                for e in range(values.size(-1)):
                    total = sum(p * float(values[at][j, e]) for j, p in enumerate(powers))
                    assert math.isclose(total / sum(powers), float(right[at][i, e]), abs_tol=1e-12)


def test_layer_norm_by_loops() -> None:
    for x, gain, bias, *eps in copied(exercise("layer-norm").cases(), torch.float64):
        right = exercise("layer-norm").reference(x, gain, bias, *eps).flatten(0, -2)
        for row, result in zip(x.flatten(0, -2).tolist(), right.tolist(), strict=True):
            mean = sum(row) / len(row)
            variance = sum((number - mean) ** 2 for number in row) / len(row)
            deviation = math.sqrt(variance + (eps[0] if eps else 1e-5))
            for at, number in enumerate(row):
                wanted = (number - mean) / deviation * float(gain[at]) + float(bias[at])
                assert math.isclose(wanted, result[at], abs_tol=1e-11)


def test_loss_by_loops() -> None:
    for logits, ids, pad in copied(exercise("loss").cases(), torch.float64):
        parts = []
        for scores, tokens in zip(logits.tolist(), ids.tolist(), strict=True):
            for row, target in zip(scores[:-1], tokens[1:], strict=True):
                if target != pad:
                    parts.append(math.log(sum(map(math.exp, row))) - row[target])
        right = float(exercise("loss").reference(logits, ids, pad))
        assert math.isclose(sum(parts) / len(parts), right, rel_tol=2**-20)  # ours is float32


# --- what fits no known slip -------------------------------------------------------------------

FINDINGS: list[tuple[str, str, str, str]] = [
    ("scores", "def f(q, k): pass", "nothing", "returns None. Is the `return` missing?"),
    ("scores", "def f(q, k): return 3.0", "type", "Expected a tensor, got float."),
    ("scores", "def f(q, k): return (q @ k.mT).sum(-1)", "shape", "the shape (3, 3), got (3,)"),
    ("scores", "def f(q, k): return (q @ k.mT) * math.nan", "nan", "NaN at [0, 0], where"),
    ("scores", "def f(q, k): return q @ k.mT + 1", "differs", "9 of 9 numbers differ. The first"),
    ("scores", "def f(q, k): return (q @ k.mT).long()", "dtype", "got torch.int64"),
    ("scores", "def f(q, k):\n  y = q + 1\n  return y.foo", "raised", "Line 3: AttributeError: "),
    ("scores", "def f(q): return q", "raised", "TypeError: f() takes 1 positional argument but"),
    ("scores", "def f(q, k):\n  exit()", "raised", "Line 2: SystemExit"),
    ("scores", "def f(q, k): raise NotImplementedError", "unwritten", "is not written yet"),
    ("greedy", "def f(n, s, e, m): return torch.tensor([3, 2])", "value", "got tensor([3, 2])"),
    ("greedy", "def f(n, s, e, m): return None", "nothing", "None"),
    ("greedy", "def f(n, s, e, m): return torch.ones(2).numpy()", "value", "got array("),
    ("greedy", "def f(n, s, e, m): return [torch.ones(2), 3]", "value", "got [tensor("),
    ("beam-step", "def f(l, t): return t, t", "tuple length", "Expected 3 tensors, got 2."),
    ("beam-step", "def f(l, t): return t", "tuple", "Expected a tuple of 3 tensors, got Tensor."),
    ("scores", "def f(q, k): return q, q @ k.mT", "with others", "one of 2. Return it alone."),
    ("scores", "def f(q, k): return torch.einsum('qe,ke->qk', q, k)", "axes in front",
     "Count axes from the end"),
    ("softmax", "def f(s): return torch.softmax(s, dim=1)", "axes in front", "Right for matrices"),
    ("softmax", "def f(s): return s - s.max(dim=-1)", "largest and place", "Take `.values`"),
    ("split-heads", "def f(x, h): return x.view(2, 3, h, 6 / h)", "size no whole number", "`//`"),
    ("merge-heads", "def f(x): return x @ x", "product", "a has as many columns as b has rows."),
    ("attention", "def f(q, k, v, m=None): return v if m else q", "differs", "numbers differ"),
    ("attention", "def f(q, k, v, m=None):\n  r = torch.softmax(q @ k.mT / 3 ** .5, -1) @ v\n"
     "  return q * m if m else r", "condition", "Line 3: a tensor of several values"),
    ("attention", "def f(q, k, v, m=None): return q * ~m", "none argument",
     "`if mask is not None`"),
    ("loss", "def f(l, ids, p): return F.cross_entropy(l[:, :-1], ids[:, 1:])", "targets",
     "(N, V)"),
    ("basic", "def f(x):\n  r = torch.softmax(x @ x.T, -1) @ x\n  x += 1\n  return r", "changed",
     "changes its inputs"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "code", "hint", "said"), FINDINGS)
def test_what_fits_no_slip_is_described(name: str, code: str, hint: str, said: str) -> None:
    found = exercise(name).check(written(code))
    assert found.hints == (hint,)
    assert said in found.text.en
    assert "\n" not in str(found)
    assert found.text.zh != found.text.en


def test_a_module_is_a_function_too() -> None:
    class Scores(torch.nn.Module):
        def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
            return queries @ keys.mT

    class Broken(torch.nn.Module):
        def forward(self, queries: Any, keys: Any) -> Any:
            return queries.nosuch(keys)

    assert exercise("scores").check(Scores()).is_right
    found = exercise("scores").check(Broken())
    here = Path(__file__).read_text(encoding="utf-8").splitlines()
    line = next(at for at, text in enumerate(here, start=1) if "queries.nosuch(keys)" in text)
    assert found.text.en.startswith(f"Line {line}: AttributeError: ")


def test_an_endless_loop_is_left_at_its_line() -> None:
    code = "def f(q, k):\n  while True:\n    try:\n      q = q + 0\n    except Exception: pass"
    began = time.monotonic()
    found = exercise("scores").check(written(code), seconds=0.3)
    assert found.hints == ("time",)
    assert "Not finished after 0.3 seconds, at line" in found.text.en
    assert time.monotonic() - began < 30


def test_the_limit_leaves_nothing_behind() -> None:
    before = threading.enumerate()
    assert exercise("scores").check(solutions.dot_product_scores, seconds=60).is_right
    assert exercise("scores").check(written("def f(q, k):\n  while True: pass"), seconds=0.1).hints
    assert threading.enumerate() == before  # who could raise anything here is gone
    for _ in range(100_000):  # and what was on its way, too
        pass


# --- the task itself ---------------------------------------------------------------------------


def test_in_chinese() -> None:
    task = exercise("single-head", "zh")
    wrong = written("def f(x, q, k, v): return F.scaled_dot_product_attention(x @ q, x @ k, x @ v,"
                    " scale=x.size(-1) ** -0.5)")  # fmt: skip
    found = task.check(wrong)
    assert repr(found).startswith("✗ single-head：你除以了 √D，但一个头的宽度是 E。")
    assert found._repr_markdown_().startswith("**✗ single-head** 你除以了 √D")
    assert "单头注意力" in str(task)
    assert "def single_head(" in task._repr_markdown_()


def test_wrong_calls() -> None:
    with pytest.raises(UnknownNameError, match="unknown exercise 'score'; did you mean 'scores'"):
        exercise("score")
    with pytest.raises(ConfigError, match="expected a function, got int"):
        exercise("scores").check(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", EXERCISES)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_starter_is_python_with_the_function_left_open(name: str, language: Any) -> None:
    task: Exercise = exercise(name)
    names: dict[str, Any] = {}
    text = starter(name, language)
    exec(compile(text, "starter", "exec"), names)
    with pytest.raises(NotImplementedError):
        names[task.function](*task.cases()[0])
    assert task.check(names[task.function]).hints == ("unwritten",)
    assert inspect.signature(names[task.function]) == inspect.signature(
        getattr(solutions, task.function)
    )
    assert all(part in names for part in parts_of(task.function))
    prose = [line for line in text.splitlines() if line.startswith("#")]
    assert max(map(len, prose)) <= 80
    assert max(map(len, signature(task.function).splitlines())) <= 78


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_track_as_a_notebook(language: Any) -> None:
    made = json.loads(exercise_notebook(EXERCISES, language))
    assert made["nbformat"] == 4
    sources = ["".join(cell["source"]) for cell in made["cells"] if cell["cell_type"] == "code"]
    checks = [source for source in sources if ".check(" in source]
    assert len(checks) == len(EXERCISES)
    names: dict[str, Any] = {}
    exec(sources[0], names)
    for source in sources[1:]:
        if source in checks:
            assert eval(source, names).hints == ("unwritten",)
        else:
            exec(source, names)
    for name, check in zip(EXERCISES, checks, strict=True):
        function = exercise(name).function
        exec(solution(function), names)  # the parts that it uses are those written before
        found = eval(check, names)
        assert found.is_right, found
        assert found.language == language


def test_a_notebook_of_one_exercise_has_the_parts_that_it_needs() -> None:
    made = json.loads(exercise_notebook(["multi-head"], "en"))
    sources = ["".join(cell["source"]) for cell in made["cells"] if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}
    for source in (*sources[:-2], solution("multi_head")):
        exec(source, names)
    assert eval(sources[-1], names).is_right


def test_parts_are_those_of_earlier_exercises() -> None:
    order = [exercise(name).function for name in EXERCISES]
    for at, function in enumerate(order):
        assert set(parts_of(function)) <= set(order[:at])
    assert parts_of("multi_head") == [
        "dot_product_scores", "softmax", "scaled_scores", "attend", "split_heads", "merge_heads",
    ]  # fmt: skip


@pytest.mark.parametrize("name", EXERCISES)
def test_a_task_says_what_the_letters_of_its_shapes_stand_for(name: str) -> None:
    shapes = re.findall(r"\(([^()a-z_]*)\)", signature(exercise(name).function).split('"""')[1])
    letters = set(re.findall("[A-Z]", "".join(shapes)))
    for language in ("en", "zh"):
        explained = set(re.findall(r"([A-Z…]) = ", sizes(exercise(name, language))))
        assert letters <= explained
    assert "H = heads" in str(exercise("multi-head")) and "H = 头数" in starter("multi-head", "zh")


def test_a_task_says_which_lesson_explains_it_and_what_our_solution_calls() -> None:
    assert all(exercise(name).lesson in LESSONS for name in EXERCISES)
    shown = " ".join(str(exercise("attention")).split())
    assert "Explained in `glassformer lesson masked`" in shown
    assert "Our solution uses `scaled_scores`, `softmax`, `Tensor.masked_fill`." in shown
    assert "参考答案用不到 PyTorch 的函数。" in str(exercise("residual", "zh"))

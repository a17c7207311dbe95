"""Losses are sums over scored labels: padding, batch size and smoothing do not change them."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.data.batches import IGNORED
from glassformer.nn import build
from glassformer.training.evaluation import Evaluator
from glassformer.training.learner import cross_entropy, model_loss, symmetric_kl
from glassformer.training.problems.problem_readers import prepare
from glassformer.training.processes import Processes
from tests.tolerances import of_a_sum
from tests.training.made import tiny


@pytest.fixture
def logits() -> Tensor:
    return torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(0))


LABELS = torch.tensor([[1, 2, 3, IGNORED, IGNORED], [4, 5, 6, 0, IGNORED]])


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_trap_20_more_padding_leaves_the_loss_as_it_is(logits: Tensor, smoothing: float) -> None:
    wider = torch.cat([logits, torch.randn(2, 3, 7)], dim=1)
    more = torch.cat([LABELS, torch.full((2, 3), IGNORED)], dim=1)
    before, after = cross_entropy(logits, LABELS, smoothing), cross_entropy(wider, more, smoothing)
    assert torch.allclose(before.objective, after.objective, rtol=1e-6)
    assert torch.allclose(before.nll, after.nll, rtol=1e-6)


def test_trap_20_what_is_reported_is_not_smoothed(logits: Tensor) -> None:
    smooth, plain = cross_entropy(logits, LABELS, 0.1), cross_entropy(logits, LABELS)
    assert torch.equal(smooth.nll, plain.nll)
    assert smooth.objective != plain.objective
    assert not smooth.nll.requires_grad


def test_smoothing_is_that_of_the_paper_by_hand(logits: Tensor) -> None:
    total = 0.0
    for row, labels in zip(logits.double(), LABELS, strict=True):
        for scores, label in zip(row, labels.tolist(), strict=True):
            if label == IGNORED:
                continue
            norm = math.log(sum(math.exp(s) for s in scores.tolist()))
            minus_logs = [norm - s for s in scores.tolist()]
            total += 0.9 * minus_logs[label] + 0.1 * sum(minus_logs) / 7
    assert cross_entropy(logits, LABELS, 0.1).objective.item() == pytest.approx(total, rel=1e-6)


@pytest.mark.parametrize("name", ["wikitext2", "imdb", "multi30k", "imdb-pretrain"])
def test_trap_22_scores_do_not_depend_on_the_batch_size(name: str) -> None:
    config = tiny(name)
    config = config.first or config
    problem = prepare(config)
    torch.manual_seed(0)
    model = build(problem.model)
    assert problem.valid is not None

    def scores(max_tokens: int) -> dict[str, float]:
        device = torch.device("cpu")
        evaluator = Evaluator(problem, device, Processes(), torch.no_grad(), max_tokens=max_tokens)
        assert problem.valid is not None
        return evaluator(model, problem.valid).values

    small, large = scores(1), scores(100_000)
    assert small == pytest.approx(large, rel=1e-5)
    assert small.keys() == large.keys()


@pytest.mark.parametrize(
    ("name", "bounded"), [("wikitext2", True), ("multi30k", True), ("imdb", False)]
)
def test_a_large_vocabulary_does_not_fill_the_memory(name: str, bounded: bool) -> None:
    """If every token has a distribution over the vocabulary, batches have fewer tokens."""
    problem = prepare(tiny(name))
    large = replace(problem, model=problem.model.with_(vocab_size=2**22))
    assert large.valid is not None
    evaluator = Evaluator(large, torch.device("cpu"), Processes(), torch.no_grad(), 16_384)
    batches = [batch for _, batch in evaluator._batches(large.valid)]
    if bounded:  # one text, however long, is never cut
        assert all(len(b.labels) == 1 or b.labels.numel() * 2**22 <= 2**27 for b in batches)
        assert len(batches) > 1
    else:
        assert max(len(batch.labels) for batch in batches) > 1


def test_a_language_model_is_scored_by_the_bytes_of_its_text() -> None:
    problem = prepare(tiny("wikitext2"))
    torch.manual_seed(0)
    evaluator = Evaluator(problem, torch.device("cpu"), Processes(), torch.no_grad(), 1000)
    assert problem.valid is not None
    values = evaluator(build(problem.model), problem.valid).values
    n_tokens = int(problem.valid.examples.lengths.sum())
    total = values["loss"] * n_tokens
    assert values["loss_per_byte"] == pytest.approx(total / problem.valid.n_bytes)
    assert values["bits_per_byte"] == pytest.approx(total / problem.valid.n_bytes / math.log(2))


@pytest.mark.parametrize(
    ("tokenizer", "beginning", "n_lost"),
    [
        ("characters", "你好", 3),  # 你
        ("characters", "☃好", 3),  # ☃, however it is spelled: it is unknown
        ("words", "  Hello, 你", 7),  # two spaces and a word
        ("words", "  Snowman, 你", 9),  # likewise; unknown
        ("subwords", "ab", 1),  # 256 bytes and no merge: a
        ("subwords", "你好", 1),  # the first of the three bytes of 你
    ],
)
def test_the_first_token_is_not_predicted_so_its_bytes_do_not_count(
    tokenizer: str, beginning: str, n_lost: int, tmp_path: Path
) -> None:
    held_out = f"{beginning} ab cd hello, 你好 ab cd"
    learnt = ("hello, 你好 ab cd " * 3)[: len(held_out)]
    file = tmp_path / "my.txt"
    file.write_text(learnt + held_out, encoding="utf-8")
    changes = {"data__tokenizer": tokenizer, "data__vocab_size": 260, "data__validation": 0.5}
    problem = prepare(tiny("text", data__file=str(file), **changes))
    assert problem.valid is not None
    assert problem.valid.n_bytes == len(held_out.encode()) - n_lost


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_nothing_to_score_gives_no_loss_and_no_gradient(logits: Tensor, smoothing: float) -> None:
    """A mean over no labels would be NaN, and one such batch would spoil a whole step."""
    logits.requires_grad_()
    loss = cross_entropy(logits, torch.full_like(LABELS, IGNORED), smoothing)
    loss.objective.backward()
    assert (loss.objective.item(), loss.nll.item()) == (0.0, 0.0)
    assert logits.grad is not None
    assert not logits.grad.any()


@pytest.mark.parametrize("size", [1e2, 1e6, 1e30])
def test_certain_answers_have_finite_losses_and_gradients(logits: Tensor, size: float) -> None:
    large = (logits * size).requires_grad_()
    other = (logits.flip(-1) * size).requires_grad_()
    for smoothing in (0.0, 0.1):
        loss = cross_entropy(large, LABELS, smoothing).objective + symmetric_kl(
            large, other, LABELS
        )
        (gradient,) = torch.autograd.grad(loss, large)
        assert loss.isfinite()
        assert gradient.isfinite().all()


def test_symmetric_kl_is_the_mean_of_both_divergences(logits: Tensor) -> None:
    others = torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(1))
    log_p, log_q = logits.log_softmax(-1), others.log_softmax(-1)
    there = (
        F.kl_div(log_p, log_q, reduction="none", log_target=True)
        + F.kl_div(log_q, log_p, reduction="none", log_target=True)
    ).sum(-1) / 2
    expected = there[LABELS != IGNORED].sum()
    assert torch.allclose(symmetric_kl(logits, others, LABELS), expected, rtol=1e-5)
    assert symmetric_kl(logits, logits, LABELS) == 0


def test_two_passes_agree_without_dropout_and_cost_the_more_they_differ() -> None:
    torch.manual_seed(0)
    x, labels = torch.randn(4, 6), torch.tensor([0, 1, 2, IGNORED])
    maps = nn.Linear(6, 3)
    one = model_loss(maps, (x,), labels)
    assert torch.allclose(one.objective, model_loss(maps, (x,), labels, r_drop=5.0).objective)
    dropped = nn.Sequential(nn.Dropout(0.5), maps)
    losses = []
    for r_drop in (1e-9, 1.0):
        torch.manual_seed(1)
        losses.append(model_loss(dropped, (x,), labels, r_drop=r_drop))
    assert losses[1].objective > losses[0].objective
    assert torch.equal(losses[0].nll, losses[1].nll)  # what is reported is plain


class Unsure(nn.Module):
    """Gives two classes the probabilities 1/2 and 1/2, and at the next call 3/4 and 1/4."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        chances = torch.tensor([[0.5, 0.5], [0.75, 0.25]], dtype=x.dtype)[(self.calls - 1) % 2]
        return chances.log().expand(len(x), 2)


@pytest.mark.parametrize("r_drop", [0.5, 1.0, 4.0])
def test_r_drop_by_hand(r_drop: float) -> None:
    """Mean of both losses + α/2 · mean of both divergences, for each of the two labels that count.

    The label is class 0: −log 1/2 and −log 3/4. The divergences of p = (1/2, 1/2) and
    q = (3/4, 1/4): Σ p log p/q = ½ log 4/3, Σ q log q/p = ¾ log 3/2 + ¼ log 1/2.
    """
    labels = torch.tensor([0, 0, IGNORED])
    x = torch.zeros(3, 1, dtype=torch.float64)
    loss = model_loss(Unsure(), (x,), labels, r_drop=r_drop)
    nll = (math.log(2) + math.log(4 / 3)) / 2
    there = 0.5 * math.log(4 / 3)
    back = 0.75 * math.log(3 / 2) + 0.25 * math.log(1 / 2)
    apart = (there + back) / 2
    room = of_a_sum(16, 1.0, torch.float32)  # two classes, labels, passes, and losses of each
    assert loss.nll.item() == pytest.approx(2 * nll, rel=room)
    assert loss.objective.item() == pytest.approx(2 * (nll + r_drop / 2 * apart), rel=room)

"""Sequences beyond a model's context: each token follows from the window that the rule gives."""

from dataclasses import replace

import pytest
import torch

from glassformer.decoding import Beam, Greedy, Sampling, Search, extend
from glassformer.decoding.stepper import ModelStepper, SlidingStepper
from tests.decoding.tiny import language_model, last_logits, sources


def test_greedy_beyond_the_context_is_greedy_on_the_windows() -> None:
    model = language_model()  # 32 positions, of which 24 are read again
    prompt = sources(1)[0]
    ids, window = list(prompt), list(prompt)
    for _ in range(80):
        if len(window) > 32:
            window = window[-24:]
        token = int(last_logits(model, window, None).argmax())
        ids.append(token)
        window.append(token)
    found = extend(model, [prompt], end=None, search=Greedy(), max_new=80)[0].best.tokens
    assert list(found) == ids[len(prompt) :]


def test_a_prompt_that_fills_the_context_is_continued_and_a_longer_one_is_cut() -> None:
    model = language_model()
    long = (sources(8)[2] * 20)[:50]
    full = extend(model, [long[:32]], end=None, max_new=3)[0].best.tokens
    assert full[0] == int(last_logits(model, long[:32], None).argmax())
    assert (
        extend(model, [long], end=None, max_new=3)[0].best.tokens
        == extend(model, [long[-24:]], end=None, max_new=3)[0].best.tokens
    )


@pytest.mark.parametrize(
    "search", [Beam(size=3, n_best=3), Sampling(n_samples=3, temperature=1.3), Greedy()]
)
def test_prompts_slide_together_as_they_do_alone(search: Search) -> None:
    model, prompts = language_model(), [ids * 3 for ids in sources(4)]
    assert len({len(prompt) for prompt in prompts}) > 2
    together = extend(model, prompts, end=None, search=search, max_new=45)
    for number, prompt in enumerate(prompts):
        if isinstance(search, Sampling):
            search = replace(search, seed=3 * number)
        alone = extend(model, [prompt], end=None, search=search, max_new=45)[0]
        for one, other in zip(together[number].hypotheses, alone.hypotheses, strict=True):
            assert one.tokens == other.tokens
            assert one.score == pytest.approx(other.score, abs=1e-9)


@torch.no_grad()
def test_within_the_context_nothing_differs() -> None:
    model, prompts = language_model(), sources(3)
    plain, sliding = ModelStepper(model, prompts), SlidingStepper(model, prompts)
    torch.testing.assert_close(plain.start(), sliding.start(), rtol=0, atol=0)
    parents = None
    for n_beams in (2, 2, 3):
        tokens = torch.randint(3, 11, (3, n_beams))
        parents = torch.zeros_like(tokens)
        torch.testing.assert_close(
            plain.step(tokens, parents), sliding.step(tokens, parents), rtol=0, atol=0
        )
    kept = torch.tensor([2, 0])
    plain.keep(kept)
    sliding.keep(kept)
    tokens = torch.randint(3, 11, (2, 3))
    torch.testing.assert_close(plain.step(tokens), sliding.step(tokens), rtol=0, atol=0)

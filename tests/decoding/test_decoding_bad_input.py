"""What decoding refuses, in one clear line, and unusual input that it accepts."""

import pytest
import torch

from glassformer.decoding import Beam, Greedy, Sampling, extend, stream, translate
from glassformer.decoding.fast.workers import by_length
from glassformer.errors import ConfigError, InputError
from glassformer.nn import Seq2Seq, build, presets
from tests.decoding.tiny import END, START, language_model, sources, translator


def test_empty_sequences_are_named() -> None:
    with pytest.raises(InputError, match="the source of sequence 1 is empty"):
        translate(translator(), [[3, 4], []], start=START, end=END, batch_size=2)
    with pytest.raises(InputError, match="the prefix of sequence 0 is empty"):
        extend(language_model(), [[]], end=END)


def test_an_empty_sequence_has_its_number_among_all_and_not_in_its_batch() -> None:
    given = [[3, 4], [5], [], [6, 7, 8]]
    with pytest.raises(InputError, match="the source of sequence 2 is empty"):
        translate(translator(), given, start=START, end=END, batch_size=1)
    with pytest.raises(InputError, match="the prefix of sequence 2 is empty"):
        extend(language_model(), given, end=END, batch_size=1)


def test_no_sequences_give_no_results() -> None:
    assert translate(translator(), [], start=START, end=END) == []
    assert extend(language_model(), [], end=END) == []


def test_wrong_numbers_are_refused() -> None:
    model, read = translator(), sources(2)
    with pytest.raises(InputError, match="2 sources and 1 prefixes"):
        translate(model, read, start=START, end=END, prefixes=[[4]])
    with pytest.raises(ConfigError, match="batch_size must be at least 1, got 0"):
        translate(model, read, start=START, end=END, batch_size=0)
    with pytest.raises(ConfigError, match="at least one token"):
        extend(language_model(), read, end=END, max_new=0)
    with pytest.raises(ConfigError, match=r"max_new must be below 2\*\*63, got 1000"):
        extend(language_model(), read, end=END, max_new=10**20)
    with pytest.raises(ConfigError, match="n_samples must be at most 1,024"):
        Sampling(n_samples=10**11)
    with pytest.raises(ConfigError, match="batch_size"):
        list(by_length([1, 2], -1))


def test_a_flattened_output_layer_cannot_be_decoded() -> None:
    model = build(presets.by_hand_2024())
    assert isinstance(model, Seq2Seq)
    with pytest.raises(ConfigError, match="cannot be decoded step by step"):
        translate(model, [[3, 4]], start=24, end=25)


def test_learned_positions_end_a_translation_and_a_prefix_beyond_them_is_refused() -> None:
    model = translator(positions__kind="learned")  # 40 positions
    result = translate(model, [[3, 4]], start=START, end=None, search=Greedy(), max_new=500)[0]
    assert len(result.best.tokens) == 40
    with pytest.raises(
        InputError, match="has 51 tokens, but the model has only 40 learned positions"
    ):
        translate(model, [[3, 4]], start=START, end=END, prefixes=[[5] * 50])


def test_the_mode_of_a_model_in_training_comes_back() -> None:
    model = translator(block__dropout=0.5).train()
    first, second = (
        translate(model, sources(3), start=START, end=END, search=Beam(size=2), max_new=9)
        for _ in range(2)
    )
    assert first == second, "no dropout while decoding"
    assert all(module.training for module in model.modules())
    assert torch.is_grad_enabled()


def test_a_frozen_part_of_a_model_in_training_stays_frozen() -> None:
    """Decoding in the middle of training must not switch dropout on where it was off."""
    model = language_model().train()
    model.decoder.blocks[0].eval()
    modes = {name: module.training for name, module in model.named_modules()}
    assert set(modes.values()) == {False, True}
    extend(model, sources(2), end=END, max_new=3)
    assert {name: module.training for name, module in model.named_modules()} == modes
    for _ in stream(model, sources(1)[0], end=None, max_new=3):
        assert {name: module.training for name, module in model.named_modules()} == modes


def test_a_vocabulary_smaller_than_the_beam_is_no_problem() -> None:
    result = translate(
        translator(4), [[3, 0]], start=START, end=END, search=Beam(size=50, n_best=9), max_new=3
    )
    assert len(result[0].hypotheses) == 9


def test_a_stream_checks_its_arguments_at_the_call() -> None:
    """Not when the first token is requested, which may be elsewhere and later."""
    model, ids = language_model(), sources(1)[0]
    with pytest.raises(ConfigError, match="at least one token"):
        stream(model, ids, end=None, max_new=0)
    with pytest.raises(ConfigError, match="stream with Greedy"):
        stream(model, ids, end=None, search=Beam())  # type: ignore[arg-type]
    with pytest.raises(InputError, match="an id must be at least 0"):
        stream(model, [-1], end=None)
    with pytest.raises(ConfigError, match="a search: Greedy"):
        stream(model, ids, end=None, search=3)  # type: ignore[arg-type]

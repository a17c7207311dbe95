"""Models at work: strings in, typed results out, odd strings included."""

import math
from pathlib import Path

import pytest
import torch

import glassformer
from glassformer import checkpoint
from glassformer.checkpoint import Checkpoint
from glassformer.decoding import Beam, Greedy, Sampling
from glassformer.errors import CheckpointError, ConfigError, InputError, UnknownNameError
from glassformer.nn import build, presets
from glassformer.tasks import GlassformerModel, Model, load, trace
from glassformer.tasks.answers import answer_lines
from glassformer.text import CharacterTokenizer, SubwordTokenizer, Tokenizer, WordTokenizer

TEXTS = ["a good film", "an awfully bad film", "bad", "good good good film"]
ODD = ["🎬🎉 Ⓐ", "\x00\x07\x1b[31m", "\u200b", "ﷺ" * 3, "tab\tand\rreturn", "𝔘𝔫𝔦", "e\u0301"]


def tokenizer() -> SubwordTokenizer:
    return SubwordTokenizer.train([*TEXTS, "a bad dog, a good cat"] * 3, vocab_size=300)


def classifier(max_len: int = 24, **about: object) -> GlassformerModel:
    torch.manual_seed(0)
    words = tokenizer()
    config = presets.bloem_2024(
        vocab_size=words.vocab_size, d_model=8, n_heads=2, n_layers=2, max_len=max_len,
        pad_id=words.special.pad,
    )  # fmt: skip
    made = Checkpoint(build(config).eval(), config, words, labels=("bad", "good"), about=about)
    return GlassformerModel(made, "judge")


def translator(max_len: int = 24) -> Model:
    torch.manual_seed(0)
    words = tokenizer()
    config = presets.vaswani_2017_base(
        vocab_size=words.vocab_size, d_model=8, n_heads=2, n_layers=2, d_ff=16, max_len=max_len,
        pad_id=words.special.pad,
    )  # fmt: skip
    return GlassformerModel(Checkpoint(build(config).eval(), config, words), "interpreter")


def writer() -> Model:
    torch.manual_seed(0)
    letters = CharacterTokenizer.build(
        ["the quick brown fox jumps over\nthe lazy dog éü"], special=("<pad>", "<unknown>")
    )
    config = presets.gpt2(
        vocab_size=letters.vocab_size, d_model=16, n_heads=2, n_layers=2, max_len=20
    )
    return GlassformerModel(Checkpoint(build(config).eval(), config, letters), "scribe")


def test_classes_come_with_probabilities_and_in_order() -> None:
    model = classifier()
    answers = model.classify(TEXTS)
    assert [answer.input for answer in answers] == TEXTS
    for answer in answers:
        assert math.isclose(sum(answer.probabilities.values()), 1, abs_tol=1e-6)
        assert answer.probability == max(answer.probabilities.values())
        assert answer.probabilities[answer.label] == answer.probability
        assert not answer.cut and answer.attention is None
    one_by_one = [model.classify([text])[0] for text in TEXTS]
    for answer, alone in zip(answers, one_by_one, strict=True):
        assert answer.label == alone.label
        assert answer.probability == pytest.approx(alone.probability, abs=1e-6)


def test_a_model_in_training_answers_without_dropout_and_goes_on_training() -> None:
    model = glassformer.load("imdb")
    expected = model.classify(["a good film"], attention=True)[0]
    vector = model.embed(["a good film"])[0].vector
    model.module.train()
    for part in model.module.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.5
    found = model.classify(["a good film"], attention=True)[0]
    assert found.probabilities == expected.probabilities
    assert found.attention is not None and expected.attention is not None
    for name, weights in expected.attention.items():
        assert torch.equal(found.attention[name], weights)
    assert model.embed(["a good film"])[0].vector == vector
    assert model.module.training


def test_what_is_no_list_is_named() -> None:
    with pytest.raises(InputError, match="expected a list of texts, received NoneType"):
        load("toy").classify(None)  # type: ignore[arg-type]


def test_a_long_text_is_cut_and_the_answer_says_so() -> None:
    long = "good film " * 60 + "bad"
    for model in (classifier(), classifier(cut="middle")):
        short, cut = model.classify(["good", long])
        assert not short.cut and cut.cut
        assert cut.to_dict()["cut"] is True and "cut" not in short.to_dict()
    first, both_ends = (
        model.classify([long])[0].probabilities
        for model in (classifier(), classifier(cut="middle"))
    )
    assert first != both_ends
    assert translator().translate([long], max_new=3)[0].cut
    assert writer().generate(long, max_new=3).cut


def test_the_shipped_classifier_reads_long_texts_as_it_was_trained_to() -> None:
    """Both ends of a review are kept: a verdict often stands in its last words."""
    model = load("imdb")
    max_len = model.max_tokens
    assert max_len is not None
    (read,) = model.read(["begin " * 2000 + "end " * 400])
    assert read.cut and len(read.ids) == max_len
    (end,) = model.reader.encode("end")
    assert read.ids.count(end) == max_len - max_len // 4


@pytest.mark.parametrize("text", ODD)
def test_odd_characters_are_only_characters(text: str) -> None:
    assert classifier().classify([text])[0].label in ("bad", "good")
    assert translator().translate([text], max_new=4)[0].input == text
    assert isinstance(writer().generate(text, max_new=4).text, str)


def test_wish_3_attention_is_there_when_asked_for_and_changes_nothing() -> None:
    model = classifier()
    plain, shown = (model.classify(TEXTS[:2], attention=asked) for asked in (False, True))
    for one, other in zip(plain, shown, strict=True):
        assert one.probability == other.probability
        assert other.attention is not None and len(other.attention) == 2
        for weights in other.attention.values():
            assert weights.dim() == 4 and weights.shape[:2] == (1, 2)
            torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))
    translated = translator().translate(["bad dog"], attention=True, max_new=5)[0]
    assert translated.attention is not None
    cross = translated.attention["decoder.blocks.0.cross_attention"]
    assert cross.shape[2] == len(translated.alternatives[0].ids) + 1
    assert writer().generate("the fox", attention=True, max_new=3).attention


def test_translations_with_alternatives_and_ledger() -> None:
    model = translator()
    best, *_ = model.translate(["bad dog", "", "  "], beam=3, n_best=3, max_new=6, ledger=True)
    scores = [one.score for one in best.alternatives]
    assert len(scores) == 3 and scores == sorted(scores, reverse=True)
    assert best.ledger is not None and len(best.ledger.steps) <= 6
    assert best.text == best.alternatives[0].text and best.score == scores[0]
    assert [a["text"] for a in best.to_dict()["alternatives"]] == [
        a.text for a in best.alternatives
    ]
    greedy = model.translate(["bad dog"], search=Greedy(), max_new=6)[0]
    assert greedy.text == model.translate(["bad dog"], beam=1, max_new=6)[0].text


def test_nothing_is_translated_into_nothing_and_cannot_be_classified() -> None:
    empty, spaces = translator().translate(["", " \t"])
    assert empty.text == spaces.text == ""
    with pytest.raises(InputError, match="text 1 is empty"):
        classifier().classify(["good", ""])
    assert classifier().classify([]) == [] and translator().translate([]) == []


def test_a_stream_is_the_text_in_pieces() -> None:
    model, search = writer(), Sampling(temperature=2.0, seed=4)
    whole = model.generate("the", search=search, max_new=60).text
    pieces = list(model.stream("the", search=search, max_new=60))
    assert "".join(pieces) == whole and len(pieces) > 30
    assert model.generate("", max_new=5).text == model.generate("\n", max_new=5).text
    assert model.generate("the", max_new=9) == model.generate("the", max_new=9), "seeded"
    assert len(model.generate("the", search=Beam(size=3, n_best=2), max_new=9).alternatives) == 2


def test_words_that_continue_a_prompt_are_set_off_from_it() -> None:
    words = WordTokenizer.build(["the cat sat on a mat"])
    config = presets.gpt2(vocab_size=words.vocab_size, d_model=8, n_heads=2, n_layers=1, max_len=16)
    model = GlassformerModel(Checkpoint(build(config).eval(), config, words), "words")
    search = Sampling(top_k=3, seed=1)
    found = model.generate("the cat", search=search, max_new=4)
    ids = [*words.encode("the cat"), *found.alternatives[0].ids]
    assert found.to_text() == words.decode(ids)
    assert "the cat" + "".join(model.stream("the cat", search=search, max_new=4)) == found.to_text()


def test_half_a_character_at_the_end_is_left_off() -> None:
    """The maximum length may cut a Chinese character, which is three bytes, in the middle."""
    tokenizer = SubwordTokenizer.train(["x"], vocab_size=300)
    config = presets.gpt2(
        vocab_size=tokenizer.vocab_size, d_model=8, n_heads=2, n_layers=1, max_len=64
    )
    torch.manual_seed(0)
    model = GlassformerModel(Checkpoint(build(config).eval(), config, tokenizer), "bytes")
    search = Sampling(temperature=9.0, seed=1)
    cut = 0
    for n in range(1, 40):
        found = model.generate("好", search=search, max_new=n).alternatives[0]
        raw = tokenizer.decode(found.ids)
        cut += raw != found.text
        assert found.text in ((raw,) if found.ended else (raw, raw.removesuffix("\ufffd")))
        assert "".join(model.stream("好", search=search, max_new=n)) == found.text
    assert cut


def test_a_model_of_a_run_is_called_by_the_runs_name(tmp_path: Path) -> None:
    model = classifier()
    checkpoint.save(tmp_path / "mine" / "model", model.checkpoint)
    assert load(tmp_path / "mine").name == load(tmp_path / "mine" / "model").name == "mine"


def test_vectors_have_length_1_whatever_the_batch() -> None:
    model = classifier()
    together, alone = model.embed(TEXTS), [model.embed([text])[0] for text in TEXTS]
    for one, other in zip(together, alone, strict=True):
        assert math.isclose(sum(x * x for x in one.vector), 1, abs_tol=1e-5)
        assert one.vector == pytest.approx(other.vector, abs=1e-5)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda: classifier().translate(["a"]),
            "judge is a classifier: it cannot translate, use classify",
        ),
        (lambda: translator().classify(["a"]), "interpreter is a translator: it cannot classify"),
        (lambda: translator().generate("a"), "interpreter is a translator: it cannot generate"),
        (
            lambda: writer().embed(["a"]),
            "scribe is a language model: it cannot embed, use generate",
        ),
        (lambda: translator().translate(["a"], beam=2, n_best=3), "n_best must be between 1"),
        (lambda: translator().translate(["a"], beam=0), "from 1 to 1,024"),
        (lambda: writer().generate("a", max_new=0), "at least one token"),
        (lambda: classifier().classify(["a"], batch_size=0), "batch_size must be at least 1"),
    ],
)
def test_wrong_tasks_and_settings_are_one_clear_line(ask: object, message: str) -> None:
    assert callable(ask)
    with pytest.raises(ConfigError, match=message) as caught:
        ask()
    assert "\n" not in str(caught.value)


def test_wrong_types_are_named() -> None:
    with pytest.raises(InputError, match=r"got one string: write \[text\]"):
        classifier().classify("a text")
    with pytest.raises(InputError, match=r"is traced over a text: trace\(model, 'a text'\)"):
        trace(classifier())
    with pytest.raises(InputError, match="text 1 is not a string but int"):
        classifier().classify(["a", 3])  # type: ignore[list-item]  # that is the point
    with pytest.raises(InputError, match="expected one prompt, a text, received list"):
        writer().generate(["a"])  # type: ignore[arg-type]  # that is the point
    config = presets.illustrated()
    with pytest.raises(InputError, match="does not read text"):
        GlassformerModel(Checkpoint(build(config), config))


def test_a_model_without_tokenizer_says_so() -> None:
    config = classifier().checkpoint.config
    with pytest.raises(InputError, match=r"this model has no tokenizer, .* --ids"):
        GlassformerModel(Checkpoint(build(config).eval(), config)).classify(["a"])


def test_models_load_by_name_and_by_folder(tmp_path: Path) -> None:
    folder = checkpoint.save(tmp_path / "judge", classifier().checkpoint)
    assert glassformer.load(folder).classify(TEXTS) == classifier().classify(TEXTS)
    assert glassformer.load("toy").classify(["not sad"])[0].label == "happy"
    with pytest.raises(UnknownNameError, match="did you mean 'toy'"):
        glassformer.load("tyo")
    with pytest.raises(CheckpointError, match="there is no model folder"):
        glassformer.load(tmp_path / "nowhere")


def test_a_flattened_translator_cannot_be_run_step_by_step() -> None:
    words = CharacterTokenizer.build(["abc"])
    config = presets.by_hand_2024(vocab_size=words.vocab_size)
    model = GlassformerModel(Checkpoint(build(config).eval(), config, words), "by-hand")
    with pytest.raises(ConfigError, match="cannot be decoded step by step"):
        model.translate(["abc"])


@pytest.mark.parametrize("name", ["toy", "imdb", "en-de", "shakespeare"])
def test_each_text_is_tokenised_once_on_its_way_to_an_answer(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Empty ones and those of which the model knows nothing, too, which the answer then says."""
    model = load(name)
    kind = type(model.reader)
    tokenised: list[str] = []
    one, many = kind._encode, kind._encode_batch
    inside: list[bool] = []

    def encode(self: Tokenizer, text: str) -> list[int]:
        if not inside:  # some kinds encode a batch text by text
            tokenised.append(text)
        return one(self, text)

    def encode_batch(self: Tokenizer, texts: list[str]) -> list[list[int]]:
        tokenised.extend(texts)
        inside.append(True)
        try:
            return many(self, texts)
        finally:
            inside.pop()

    monkeypatch.setattr(kind, "_encode", encode)
    monkeypatch.setattr(kind, "_encode_batch", encode_batch)
    texts = ["A dog runs.", "A good film."] if name == "shakespeare" else ["A dog runs.", "", "好"]
    options = {"max_new": 2} if model.task in ("translate", "generate") else {}
    answers = list(answer_lines(model, texts, options))
    assert sorted(tokenised) == sorted(texts)
    assert [answer.input for answer in answers] == texts
    if name == "imdb":
        assert [answer.unknown for answer in answers] == [False, False, True]


def test_answers_take_the_options_of_their_task_alone() -> None:
    model = load("en-de")
    assert len(model.answer(["A dog runs."], n_best=5)[0].to_dict()["alternatives"]) == 5
    with pytest.raises(
        ConfigError, match="--top-k is not for en-de, a translator; it takes --max-new, --beam"
    ):
        model.answer(["A dog runs."], top_k=3)
    texts = ["A dog runs.", " "]
    assert [one.to_text() for one in model.answer(texts)] == [
        one.text for one in model.translate(texts)
    ]

"""One forward pass over a text, for the trace and the explorer."""

from pathlib import Path

import pytest
import torch

from glassformer import checkpoint
from glassformer.errors import CheckpointError, InputError, UnknownNameError
from glassformer.tasks import load


def test_a_classifier_reads_the_words_of_the_text() -> None:
    reading = load("toy").forward_pass("I am not happy")
    assert reading.labels["ids"] == ["I", "am", "not", "happy"]
    assert reading.labels["to_classes.weight"] == ["sad", "happy"]
    assert reading.arguments[0].shape == (1, 4)


def test_a_translator_reads_the_target_that_it_produces() -> None:
    reading = load("en-de").forward_pass("A man is riding a bicycle.")
    source, target = reading.arguments
    assert "".join(reading.labels["target"][1:]).replace("␣", " ").strip()
    with torch.no_grad():
        logits = reading.module(source, target)
    assert reading.ids == tuple(target[0].tolist())
    # Greedy search said these words: each is the likeliest after those before it.
    assert torch.equal(logits[0, :-1].argmax(-1), target[0, 1:])


def test_a_given_target_is_read_instead() -> None:
    model = load("en-de")
    reading = model.forward_pass("A man.", target="Ein Hund.")
    assert model.writer.decode(reading.arguments[1][0].tolist()) == "Ein Hund."


@pytest.mark.parametrize(
    ("model", "text", "target", "message"),
    [
        ("toy", "  ", None, "the text is empty"),
        ("toy", "!!!", None, "the text is empty"),
        ("toy", "happy " * 17, None, "17 tokens, the model reads at most 16"),
        ("toy", "happy", "sad", "has no target"),
    ],
)
def test_bad_input_says_so(model: str, text: str, target: str | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(model).forward_pass(text, target)


def test_a_model_is_found_by_name_or_folder() -> None:
    assert checkpoint.find("toy").name == "toy"
    assert checkpoint.find(checkpoint.find("toy")) == checkpoint.find("toy")
    with pytest.raises(UnknownNameError, match="did you mean 'toy'"):
        checkpoint.find("toi")
    with pytest.raises(CheckpointError, match=r"there is no model folder \./toi"):
        checkpoint.find("./toi")
    with pytest.raises(CheckpointError, match="there is no model folder"):
        checkpoint.find("runs/nowhere")


def test_a_data_folder_does_not_hide_a_shipped_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imdb").mkdir()
    monkeypatch.chdir(tmp_path)
    assert checkpoint.find("imdb") == checkpoint.SHIPPED / "imdb"
    with pytest.raises(CheckpointError, match="by its name or its folder, got int"):
        checkpoint.find(3)  # type: ignore[arg-type]  # that is the point


def test_shipped_models_stay_under_20_mib_together() -> None:
    files = [f for f in checkpoint.SHIPPED.rglob("*") if f.is_file() and f.suffix != ".py"]
    assert sum(file.stat().st_size for file in files) < 20 * 2**20
    for name in checkpoint.shipped():
        card = (checkpoint.SHIPPED / name / "README.md").read_text(encoding="utf-8")
        assert f"# {name}" in card

"""One encoder-decoder for several tasks (G12), a missing mask (G11), one pair by heart."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from glassformer import checkpoint
from glassformer.nn import Block, Seq2Seq
from glassformer.training import train
from glassformer.training.evaluation import Evaluator, translate
from glassformer.training.log import PlainReporter
from glassformer.training.problems.translation import THRONES
from glassformer.training.processes import Interruption, Processes
from glassformer.training.recipes import recipe
from glassformer.training.settings import changed
from tests.training.made import ENGLISH, GERMAN, tiny
from tests.training.runs import make_trainer

pytestmark = pytest.mark.no_cover  # the lines of test_recipes.py, for hundreds of steps


def translation(rng: random.Random) -> tuple[str, str]:
    picks = rng.choices(range(len(ENGLISH)), k=3)
    return " ".join(ENGLISH[i] for i in picks), " ".join(GERMAN[i].lower() for i in picks)


def reversal(rng: random.Random) -> tuple[str, str]:
    letters = rng.choices("abcdefgh", k=3)
    return " ".join(letters), " ".join(reversed(letters))


def classification(rng: random.Random) -> tuple[str, str]:
    letters = rng.choices("abcdefgh", k=4)
    return " ".join(letters), "early" if sorted(letters)[2] < "e" else "late"


Task = Callable[[random.Random], tuple[str, str]]


def pairs_file(folder: Path, task: Task, n: int) -> Path:
    rng = random.Random(0)
    rows = {task(rng) for _ in range(n)}
    file = folder / "pairs.tsv"
    file.write_text("".join(f"{a}\t{b}\n" for a, b in sorted(rows)), encoding="utf-8")
    return file


def exact(folder: Path, file: Path) -> float:
    """Share of all pairs that a trained model answers word for word, greedily."""
    model = checkpoint.load(folder / "model")
    rows = [line.split("\t") for line in file.read_text("utf-8").splitlines()]
    assert model.tokenizer is not None
    answers = translate(model.model, model.tokenizer, [row[0] for row in rows], max_len=16)
    return sum(a == row[1] for a, row in zip(answers, rows, strict=True)) / len(rows)


@pytest.mark.parametrize("task", [translation, reversal, classification])
def test_one_class_learns_translation_reversal_and_classification(
    task: Task, tmp_path: Path
) -> None:
    file = pairs_file(tmp_path, task, 400)
    config = tiny(
        "pairs",
        data__file=str(file),
        data__tokenizer="words",
        data__max_tokens=512,
        data__bucket_width=32,
        model__d_model=32,
        model__feed_forward__d_ff=64,
        model__block__dropout=0.0,
        model__feed_forward__dropout=0.0,
        schedule__warmup=20,
        loop__steps=220,
        loop__evaluate_every=220,
        loop__log_every=50,
        optimiser__lr=5e-3,
    )
    train(config, tmp_path / "run")
    assert exact(tmp_path / "run", file) > 0.9


@pytest.mark.parametrize("causal", [True, False])
def test_without_the_causal_mask_training_looks_perfect_and_generation_fails(
    causal: bool, tmp_path: Path
) -> None:
    """Random letters, which cannot be predicted, are copied from the future if it is not masked."""
    rng = random.Random(1)
    file = tmp_path / "pairs.tsv"
    rows = {(str(i), " ".join(rng.choices("abcdefgh", k=5))) for i in range(160)}
    file.write_text("".join(f"{a}\t{b}\n" for a, b in sorted(rows)), encoding="utf-8")
    config = tiny(
        "pairs",
        data__file=str(file),
        data__tokenizer="words",
        data__max_tokens=512,
        data__bucket_width=32,
        model__d_model=32,
        model__block__dropout=0.0,
        model__feed_forward__dropout=0.0,
        schedule__warmup=20,
        loop__steps=250,
        loop__evaluate_every=250,
        loop__average=0.0,
        optimiser__lr=5e-3,
        optimiser__label_smoothing=0.0,
    )
    trainer = make_trainer(config, tmp_path / "run")
    assert isinstance(trainer.model, Seq2Seq)
    for block in trainer.model.decoder.blocks:
        assert isinstance(block, Block)
        block.causal = causal
    trainer.folder.begin(config)
    trainer.run(Interruption())
    assert trainer.problem.valid is not None
    cpu = torch.device("cpu")
    evaluator = Evaluator(trainer.problem, cpu, Processes(), torch.no_grad(), max_tokens=512)
    scores = evaluator(trainer.model, trainer.problem.valid).values
    if causal:  # the letters are random: an honest model cannot do better than guess
        assert scores["loss"] > 1.0
    else:
        assert scores["loss"] < 0.2, "new texts, and hardly an error: it looks perfect"
    assert scores["bleu"] < 20, "but nothing is foreseen when there is nothing to copy"


def test_trap_24_one_pair_is_learnt_by_heart_and_decoded_exactly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = changed(recipe("thrones"), {"loop.device": "cpu"})
    result = train(config, tmp_path / "run", reporter=PlainReporter())
    assert "thrones: 1 example, " in capsys.readouterr().err
    assert result.scores["the pair itself"]["loss"] < 0.05
    model = checkpoint.load(tmp_path / "run/model")
    assert model.tokenizer is not None
    (answer,) = translate(model.model, model.tokenizer, [THRONES.source], max_len=16)
    assert answer == THRONES.target
    assert answer.split()[0] == "you"

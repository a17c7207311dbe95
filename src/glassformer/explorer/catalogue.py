"""The cards of the start page: which models there are, and what to try them with.

Read from the model folders' config files; no model is loaded for it. A request names a model by
the name on its card, never by a path: only the shipped ones and the folder given at the start can
be opened.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer import checkpoint
from glassformer.errors import CheckpointError, UnknownNameError
from glassformer.explorer.schemas import Bilingual, ModelInfo, Task
from glassformer.files import read_object, read_tensor_entries

__all__ = ["Catalogue"]

_TASKS: dict[str, Task] = {
    "Classifier": "classify", "Seq2Seq": "translate", "LanguageModel": "generate"
}  # fmt: skip
_ORDER = ("toy", "imdb", "en-de", "en-zh", "shakespeare")


@dataclass(frozen=True)
class _Words:
    title: Bilingual
    summary: Bilingual
    examples: tuple[str, ...]


_SHIPPED: dict[str, _Words] = {
    "toy": _Words(
        Bilingual(en="Toy", zh="玩具模型"),
        Bilingual(
            en="Happy or sad? One block, every parameter set by hand; it understands “not”.",
            zh="高兴还是难过？只有一个块，每个参数都由人手设定；它懂得“not”的含义。",
        ),
        ("I am not happy", "you are very happy", "we are not sad"),
    ),
    "imdb": _Words(
        Bilingual(en="Film reviews", zh="影评分类"),
        Bilingual(
            en="Is a review for or against the film? Trained on IMDb.",
            zh="判断影评是正面还是负面；在 IMDb 数据上训练。",
        ),
        (
            "A wonderful film, beautifully shot and moving.",
            "The plot is thin and the jokes are worse, but I did not regret a single minute.",
            "I wanted to like it, but it was a waste of time.",
        ),
    ),
    "en-de": _Words(
        Bilingual(en="English → German", zh="英语 → 德语"),
        Bilingual(
            en="An encoder-decoder as in the paper of 2017, small, for everyday sentences.",
            zh="与 2017 年论文相同结构的小型编码器-解码器，翻译日常句子。",
        ),
        ("A dog runs through the snow.", "Where is the station?", "Two children are playing."),
    ),
    "en-zh": _Words(
        Bilingual(en="English → Chinese", zh="英语 → 中文"),
        Bilingual(
            en="The same architecture, from English to simplified Chinese.",
            zh="同样的结构，从英语翻译成简体中文。",
        ),
        ("Where is the station?", "I like to read books.", "She is not at home today."),
    ),
    "shakespeare": _Words(
        Bilingual(en="Shakespeare", zh="莎士比亚"),
        Bilingual(
            en="A language model that writes on, letter by letter.",
            zh="逐个字符续写文本的语言模型。",
        ),
        ("KING HENRY:\nWhat say you, my", "ROMEO:\nO, she doth", "To be, or not to"),
    ),
}


class Catalogue:
    """The models that this server may open, by name."""

    def __init__(self, chosen: str | None = None) -> None:
        """All that ship; with `chosen`, that one alone (a shipped name or a folder)."""
        self._folders: dict[str, Path] = {}
        if chosen is None:
            names = [*_ORDER, *(name for name in checkpoint.shipped() if name not in _ORDER)]
            self._folders = {name: checkpoint.SHIPPED / name for name in names}
        else:
            folder = checkpoint.find(chosen)
            called = Path(chosen) if Path(chosen).is_dir() else folder  # a run's model is in it
            self._folders = {called.resolve().name: folder}
        self.cards = [
            card for name, folder in self._folders.items() if (card := _card(name, folder))
        ]
        if chosen is not None and not self.cards:
            raise CheckpointError(
                "{chosen} is no model that reads text: it cannot be explored", chosen=chosen
            )

    def folder(self, name: str) -> Path:
        """The folder of a model on a card."""
        if name not in self._folders:
            raise UnknownNameError("model", name[:80], self._folders)
        return self._folders[name]


def _card(name: str, folder: Path) -> ModelInfo | None:
    config = _config(folder)
    architecture = (config.get("architectures") or [""])[0]
    if architecture not in _TASKS:
        return None
    shipped = folder == checkpoint.SHIPPED / name and name in _SHIPPED
    words = _SHIPPED[name] if shipped else _words_of(name, architecture, config)
    return ModelInfo(
        name=name,
        task=_TASKS[architecture],
        title=words.title,
        summary=words.summary,
        n_parameters=_count_parameters(folder / checkpoint.WEIGHTS),
        max_tokens=config.get("model", {}).get("max_len"),
        examples=list(words.examples),
        score=_score(config.get("about") or {}),
    )


def _words_of(name: str, architecture: str, config: dict[str, Any]) -> _Words:
    """A card for a model of the user's."""
    about = config.get("about") or {}
    made = about.get("what") or about.get("recipe") or architecture
    return _Words(
        Bilingual(en=name, zh=name),
        Bilingual(en=f"Your model: {made}.", zh=f"你的模型：{made}。"),
        ("Hello",),
    )


def _config(folder: Path) -> dict[str, Any]:
    return read_object(folder / checkpoint.CONFIG, error=CheckpointError, what="a model's config")


def _count_parameters(file: Path) -> int:
    """From the head of the weights' file, which lists every shape."""
    entries = read_tensor_entries(file, error=CheckpointError)
    return sum(math.prod(entry.shape) for entry in entries.values())


def _score(about: dict[str, Any]) -> Bilingual | None:
    """The measure that people ask for first, on its test part if there is one."""
    scores: dict[str, dict[str, float]] = about.get("scores", {})
    parts = {part: found for part, found in scores.items() if part != "validation"} or scores
    for found in parts.values():
        if "accuracy" in found:
            share = f"{100 * found['accuracy']:.1f} %"
            return Bilingual(en=f"accuracy {share}", zh=f"准确率 {share}")
        if "bleu" in found:
            return Bilingual(en=f"BLEU {found['bleu']:.1f}", zh=f"BLEU {found['bleu']:.1f}")
        if "bits_per_byte" in found:
            bits = f"{found['bits_per_byte']:.2f}"
            return Bilingual(en=f"{bits} bits per byte", zh=f"每字节 {bits} 比特")
    return None

"""One forward pass over a text: its ids, a model's arguments, and the names of their positions.

`trace`, `explain`, `words` and the explorer all see a model through one pass: the token ids of a
text and, for an encoder-decoder, the target that it produces (or one that is given).
`TraceableModel` is that half of `Model` which needs no task.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor, nn

from glassformer.errors import ConfigError, InputError, TraceTooLargeError, expect
from glassformer.tasks.answers import Attention, Task, TextAnswer, Translated

if TYPE_CHECKING:  # tracing and experiments are imported where a number is looked at
    from glassformer.experiments import WordScores, WordTable
    from glassformer.experiments.attribution import Method
    from glassformer.tasks.images import Samples
    from glassformer.text import Tokenizer
    from glassformer.tracing import Cell, MemoryEstimate, Step, Trace
    from glassformer.tracing.notes import Explanation


class EmptyTextError(InputError):
    """A text without any token for the model to read."""


class TooLongError(InputError):
    """A text with more tokens than the model has positions."""

    def __init__(self, tokens: int, most: int) -> None:
        super().__init__(
            "the text has {tokens} tokens, the model reads at most {most}; take a shorter one",
            tokens=tokens,
            most=most,
        )
        self.tokens = tokens
        self.most = most


class Read(NamedTuple):
    """A text as its model reads it."""

    text: str
    ids: list[int]
    """None for an image, and for names, which are not tokens."""
    cut: bool = False
    """Whether part of the text was left out."""
    empty: bool = False
    """No token to read: only spaces, or only characters that the vocabulary drops."""
    unknown: bool = False
    """Every token is unknown to the vocabulary, as with another script."""
    image: str | None = None
    """The file of an image."""

    @property
    def marks(self) -> dict[str, bool]:
        """What an answer says about its text."""
        return {"cut": self.cut, "unknown": self.unknown}


@dataclass(frozen=True)
class Pass:
    """The arguments of one call of a module."""

    module: nn.Module
    arguments: tuple[Tensor, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Tokens by the name of their input; words and classes by that of a parameter or output."""
    ids: tuple[int, ...] = ()
    """The tokens that the positions of the logits stand for: of a translator, the target's."""

    def trace(self, max_bytes: int | None = None, only: Sequence[str] | None = None) -> Trace:
        """Run the module once and keep every number, or those of some modules.

        A model too large for that is traced all the same: its numbers are computed again when they
        are looked at.
        """
        from glassformer.tracing import trace  # slow to import, and most answers need no trace

        given: dict[str, Any] = {"axis_labels": self.labels}
        if max_bytes is not None:
            given["max_bytes"] = max_bytes
        try:
            return trace(self.module, *self.arguments, **given, only=only, **self.keywords)
        except TraceTooLargeError:
            if only is not None:
                raise
        return trace(self.module, *self.arguments, **given, only=(), **self.keywords)

    def estimate(self, only: Sequence[str] | None = None) -> MemoryEstimate:
        """The memory that its trace would take."""
        from glassformer.tracing import estimate

        return estimate(self.module, *self.arguments, only=only, **self.keywords)


def vocabulary_labels(
    module: nn.Module, table: Tensor, tokenizer: Tokenizer
) -> dict[str, list[str]]:
    """The words of a vocabulary as labels of an embedding table's rows.

    The logits get them from there where the output layer shares that table.
    """
    for name, parameter in module.named_parameters():
        if parameter is table:
            return {name: vocabulary_words(tokenizer, len(table))}
    return {}


def vocabulary_words(tokenizer: Tokenizer, size: int) -> list[str]:
    """A word for each row of an embedding table; an unused row gets its number."""
    return [_word(tokenizer, id_) for id_ in range(size)]


def _word(tokenizer: Tokenizer, id_: int) -> str:
    try:
        return tokenizer.display_tokens([id_])[0]
    except InputError:  # tables are often rounded up to a multiple of 64 rows
        return f"⟨{id_}⟩"


# --- every number of a pass ---


class TraceableModel(ABC):
    """A model with its tokenizer, which shows every number of one forward pass over a text.

    `trace`, `explain`, `words`, `why` and `attention` work for any model.
    """

    name: str
    kind: str
    """For messages: "a classifier"."""
    tasks: tuple[Task, ...]
    """What the model is for, its main use first: the names of methods."""
    module: nn.Module
    tokenizer: Tokenizer | None
    target_tokenizer: Tokenizer | None = None
    """Of output texts, if they have their own vocabulary."""
    labels: tuple[str, ...] = ()
    """Names of classes."""
    corpus: str | None = None
    """The data set that an image classifier was trained on, if its folder says so."""
    samples: Samples | None = None
    """Its test images, with which `test:17` can be used instead of an image file."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.kind})"

    @property
    def task(self) -> Task:
        """What the model is for: the name of the method that `answer` calls."""
        if not self.tasks:
            raise ConfigError(
                "{name} is {kind}, which has no answer in words: trace, explain or explore it",
                name=self.name,
                kind=self.kind,
            )
        return self.tasks[0]

    @property
    def max_tokens(self) -> int | None:
        """The longest text that the model reads; None where only memory limits it."""
        return None

    # --- how each kind of model calls its module ---

    @abstractmethod
    def read(self, texts: Sequence[str]) -> list[Read]:
        """The ids of texts as the model reads them; a text that is too long is cut."""

    def forward_pass(self, text: str, target: str | None = None) -> Pass:
        """The pass to trace; a text that is too long is an error, since a part has other numbers.

        An encoder-decoder also needs a target: the one given, else the one that it produces.
        """
        is_translator = self.tasks[:1] == ("translate",)
        if target is not None and not is_translator:
            raise InputError(
                "a {kind} has no target: only a translator takes one",
                kind=type(self.module).__name__,
            )
        if (source := self.image_of(text)) is not None:
            return self._image_pass(source)
        ids = self._checked(self._ids_of(text))
        if not is_translator:
            return self.pass_over(ids)
        if target is None:
            return self.pass_over(ids, self._greedy(ids))
        return self.pass_over(ids, self._checked(self._target_ids(target), before=1))

    def _checked(self, ids: Sequence[int], before: int = 0) -> Sequence[int]:
        """Refuse no ids, and ids that leave no room for `before` tokens in front of them."""
        if not ids:
            raise EmptyTextError("the text is empty: a model needs at least one token")
        if self.max_tokens is not None and len(ids) > self.max_tokens - before:
            raise TooLongError(len(ids), self.max_tokens - before)
        return ids

    @abstractmethod
    def _ids_of(self, text: str) -> Sequence[int]:
        """All ids of a text as the model reads it, none of them cut; none of an empty text."""

    def _image_pass(self, source: str) -> Pass:
        raise NotImplementedError

    def _target_ids(self, target: str) -> Sequence[int]:
        """The ids of a translation, without start and end."""
        raise NotImplementedError

    def _greedy(self, source: Sequence[int]) -> Sequence[int]:
        """The translation that greedy search finds, without its end token."""
        raise NotImplementedError

    def image_of(self, text: str) -> str | None:
        """The image file that a text names: any of an image model, `image:FILE` of a pair."""
        return None

    @abstractmethod
    def pass_over(self, ids: Sequence[int], target: Sequence[int] = ()) -> Pass:
        """The pass over ids that were read already, such as an example of training data."""

    @property
    def reader(self) -> Tokenizer:
        """The tokenizer of texts that go in, which a model cannot do without."""
        if self.tokenizer is None:
            raise InputError(
                "{name} has no tokenizer, so it cannot read text: give token ids, such as "
                "'3 17 5', with --ids (in Python: load(…, tokenizer=\"ids\"))",
                name=self.name,
            )
        return self.tokenizer

    @property
    def writer(self) -> Tokenizer:
        """The tokenizer of texts that come out."""
        return self.target_tokenizer or self.reader

    # --- every number ---

    def trace(
        self,
        text: str,
        *,
        target: str | None = None,
        max_bytes: int | None = None,
        only: Sequence[str] | None = None,
    ) -> Trace:
        """Every number of one pass over a text; axes carry its tokens, words and classes.

        For an encoder-decoder: over the text and the target that it produces, or `target`. Of a
        large model, `only` names the modules whose numbers are kept; the others are computed again
        when they are looked at.
        """
        expect(text, str, "a text", InputError)
        return self.forward_pass(text, target).trace(max_bytes, only)

    def estimate(
        self, text: str, *, target: str | None = None, only: Sequence[str] | None = None
    ) -> MemoryEstimate:
        """The memory that `trace` would take, before it is made."""
        expect(text, str, "a text", InputError)
        return self.forward_pass(text, target).estimate(only)

    def explain(
        self,
        text: str,
        at: str | None = None,
        *,
        depth: int = 1,
        terms: int | None = None,
        target: str | None = None,
    ) -> Explanation:
        """The arithmetic of one number: `explain("I am not happy", at="logits[0, 1]")`.

        Without `at`, of the number that decided the answer.
        """
        cell = self.cell(text, at, target=target)
        return cell.explain(depth) if terms is None else cell.explain(depth, terms)

    def cell(self, text: str, at: str | None = None, *, target: str | None = None) -> Cell:
        """One number of the pass over a text: that at an address, else the answer's."""
        from glassformer.tracing.trace import find_cell

        recorded = self.trace(text, target=target)
        return self.answer_cell(recorded) if at is None else find_cell(recorded, at)

    def words(
        self,
        text: str,
        at: str | None = None,
        *,
        method: Method = "leave one out",
        baseline: str | None = None,
        target: str | None = None,
    ) -> WordScores:
        """Which words made a number; without `at`, the number that decided the answer.

        `baseline` is the token that stands for no word, such as "[MASK]"; without it, an embedding
        of zeros does.
        """
        from glassformer.experiments import words

        instead = None if baseline is None else self.reader.id_of(baseline)
        return words(self.cell(text, at, target=target), method, baseline=instead)

    def why(self, answer: TextAnswer, at: int | str | None = None) -> WordScores | WordTable:
        """Which words made an answer of this model.

        Of a translation, every token that was written; with `at`, one of them, by its number
        (counted from 0) or as it is written. Of a continuation, one token: the first without `at`.
        """
        from glassformer.experiments import word_table, words

        self.check_why(at)
        if not isinstance(answer, Translated):
            return self.words(answer.input)
        if self.task == "generate":
            return words(self._continued_cell(answer, at or 0))
        cells = self._translated_cells(answer, at)
        return word_table(cells) if at is None else words(cells[0])

    def _translated_cells(self, answer: Translated, at: int | str | None) -> list[Cell]:
        """The logits of the tokens of a translation, or of one of them."""
        ids = self._written_ids(answer)
        (read,) = self.read([answer.input])
        if read.empty:
            raise EmptyTextError("the text is empty: a model needs at least one token")
        chosen = range(len(ids)) if at is None else [self._written_place(ids, at)]
        output = _output(self.pass_over(read.ids, ids[: chosen[-1]]).trace())
        return [output[0, place, ids[place]] for place in chosen]

    def _continued_cell(self, answer: Translated, at: int | str) -> Cell:
        """The logit of one token of a continuation."""
        ids = self._written_ids(answer)
        place = self._written_place(ids, at)
        whole = [*self.forward_pass(answer.input).ids, *ids[:place]]
        if answer.cut or (self.max_tokens is not None and len(whole) > self.max_tokens):
            raise TooLongError(len(whole), len(whole) - 1)
        output = _output(self.pass_over(whole).trace())
        return output[0, len(whole) - 1, ids[place]]

    def _written_ids(self, answer: Translated) -> list[int]:
        """The tokens that were written, the end token among them."""
        best, end = answer.alternatives[0], self.writer.special.end
        if not best.ids:
            raise EmptyTextError("the answer has no token that words could explain")
        return [*best.ids, end] if best.ended and end is not None else list(best.ids)

    def _written_place(self, ids: Sequence[int], at: int | str) -> int:
        """Where a token stands among those that were written."""
        from glassformer.experiments.intervention import place_of

        expect(at, (int, str), "the number of a token, or the token as it is written", InputError)
        shown = self.writer.display_tokens(ids)
        is_number = len(str(at)) < 20 and str(at).removeprefix("-").isdecimal()
        if isinstance(at, str) and not is_number:  # Python refuses to read 5,000 digits
            bare = [token.removeprefix("␣") for token in shown]
            return place_of(at, shown if at in shown else bare)
        if not -len(ids) <= int(at) < len(ids):
            raise InputError(
                "no token {at} was written: there are {count}, counted from 0",
                at=at,
                count=len(ids),
            )
        return int(at) % len(ids)

    def check_why(self, at: int | str | None = None) -> None:
        """Refuse a model whose answers no words explain, or which writes no token to choose."""
        if at is not None and self.task not in ("translate", "generate"):
            raise ConfigError(
                "--at chooses a token that was written, and {name} writes none: ask for any number "
                "with glassformer explain {name} TEXT --words --at …",
                name=self.name,
            )
        if self.image_of("") is not None:
            raise ConfigError(
                "{name} reads images, so no words made its answer: explain one number of it with "
                "--at",
                name=self.name,
            )
        if self.task == "embed":
            raise ConfigError(
                "{name} is {kind}: its answer is a vector, not one number that words could "
                "explain; explain one number of it with --at",
                name=self.name,
                kind=self.kind,
            )

    def attention(self, text: str, *, target: str | None = None) -> Attention:
        """The attention weights of one pass over a text, by layer."""
        return self._attention(self.forward_pass(text, target))

    def _attention(self, reading: Pass) -> Attention:
        from glassformer.tracing.stages import attention_name, stage_called, stages_called

        with reading.trace() as recorded:
            return {
                attention_name(path, call): step.value.clone()
                for name, step in stages_called(recorded, "weights").items()
                for path, _, call in [stage_called(name)]
            }

    def answer_cell(self, recorded: Trace) -> Cell:
        """The number of a trace that decided the answer.

        A classifier's largest logit; a language model's likeliest next token, at the last position;
        the likeliest word for the first mask; of a translator the first token that it writes; of a
        token classifier the surest class of a token that is not special.
        """
        output = _output(recorded)
        values = output.value
        place = [0] * values.dim()
        if values.dim() == 3:
            place[1] = self._answered_position(recorded, values)
        row = values[tuple(place[:-1])]
        place[-1] = int(row.argmax())
        return output[tuple(place)]

    def _answered_position(self, recorded: Trace, values: Tensor) -> int:
        if self.tasks[:1] == ("generate",):
            return values.size(1) - 1
        if self.tasks[:1] not in (("fill",), ("tag",)):
            return 0
        special = self.reader.special
        ids = next(iter(recorded.inputs.values())).value[0].tolist()
        if self.tasks[0] == "fill":
            return int(ids.index(special.mask)) if special.mask in ids else 0
        sure = values[0].float().softmax(dim=-1).amax(dim=-1).tolist()
        ordinary = [at for at, id_ in enumerate(ids) if id_ not in special.silent]
        return max(ordinary, key=sure.__getitem__, default=0)


def _output(recorded: Trace) -> Step:
    """The logits of a pass, or whatever it gives first."""
    return next(iter(recorded.outputs.values()))

"""A model as its user meets it: text in, typed results out, every number traceable.

    model = load("en-de")                        # a shipped name, a folder, a module in memory
    model.translate(["A dog runs."], beam=5)[0].text
    model.trace("A dog runs.")["encoder.blocks.0.attention.weights"]
    model.words("A dog runs.")                   # which words made the answer

`Model` is the interface: its answers are here, what it shows of its numbers in `forward_pass`. Its
two kinds, `GlassformerModel` and `HuggingFaceModel`, know how their modules are called: they turn
texts into ids, and ids into logits, vectors or texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from torch import Tensor, nn

from glassformer.decoding import Beam, Greedy, Ledger, Sampling, Search
from glassformer.errors import ConfigError, InputError, expect
from glassformer.tasks.answers import (
    NOTHING,
    Alternative,
    Classified,
    Embedded,
    Filled,
    Generated,
    LabelledToken,
    Recommended,
    Scored,
    Tagged,
    Task,
    TextAnswer,
    Translated,
    Unread,
    Word,
    beam_of,
    check_options,
    sampling_of,
)
from glassformer.tasks.forward_pass import Read, TraceableModel

CONTINUATION, FILMS, GUESSES = 200, 10, 5  # defaults: tokens, films and words
HALF_CHARACTER = "\N{REPLACEMENT CHARACTER}"  # of several bytes, cut at the maximum length
Written = tuple[tuple[Alternative, ...], Ledger | None]
"""Texts that a model wrote, best first, and the steps of the search if they were asked for."""
_NO_WORDS = Alternative("", score=0.0, log_probability=0.0, ended=True, ids=())


class Model(TraceableModel):
    """A model with its tokenizer and labels, ready for use.

    Each method of `tasks` answers texts; a method of another task is refused in one line.
    """

    # --- how each kind of model calls its module ---

    def _logits(self, read: Sequence[Read], batch_size: int) -> list[Tensor]:
        """For each text the logits of its classes (N), or those of each position (T, N)."""
        raise NotImplementedError

    def _vectors(self, read: Sequence[Read], batch_size: int) -> list[Tensor]:
        """For each text one vector (D), of any length."""
        raise NotImplementedError

    # --- answers ---

    def answer(
        self, texts: Iterable[str], *, batch_size: int = 32, **options: Any
    ) -> list[TextAnswer]:
        """What the model is for, whatever that is; an empty text is answered by `Unread`.

        Options are those of the task, by name: `beam=5` for a translator, `temperature=0.5` for a
        language model (`answers.OPTIONS`).
        """
        given = texts_of(texts)
        check_options(self, options)
        if self.task == "translate":
            beam, max_new = beam_of(options), options.get("max_new")
            return [*self.translate(given, search=beam, max_new=max_new, batch_size=batch_size)]
        if self.task == "generate":
            search, max_new = sampling_of(options), options.get("max_new", CONTINUATION)
            return [self.generate(text, search=search, max_new=max_new) for text in given]
        read = self.read(given)
        answers = iter(self._answer([one for one in read if not one.empty], batch_size, options))
        nothing = NOTHING[self.task]
        return [Unread(one.text, nothing) if one.empty else next(answers) for one in read]

    def _answer(
        self, read: list[Read], batch_size: int, options: dict[str, Any]
    ) -> Sequence[TextAnswer]:
        match self.task:
            case "classify":
                return self._classified(read, batch_size)
            case "fill":
                return self._filled(read, batch_size, options.get("n_best", GUESSES))
            case "tag":
                return self._tagged(read, batch_size)
            case "score":
                return self._scored(read, batch_size)
            case "recommend":
                return self.recommend([one.text for one in read], n=options.get("films", FILMS))
            case _:
                return self._embedded(read, batch_size)

    def can_read(self, text: str) -> bool:
        """Whether a text has a token to read."""
        expect(text, str, "a text", InputError)
        return not self.read([text])[0].empty

    def count_unknown(self, text: str) -> tuple[int, int]:
        """How many tokens of a text the vocabulary does not know, and how many there are."""
        tokenizer = self.reader
        ids = tokenizer.encode(text)
        return sum(id_ == tokenizer.special.unknown for id_ in ids), len(ids)

    def unknown_words(self, text: str) -> list[str]:
        """The parts of a text that the vocabulary does not know, each once.

        Empty also where the tokenizer does not say where in a text its tokens are.
        """
        tokenizer = self.reader
        try:
            pieces = tokenizer.pieces(text)
        except InputError:
            return []
        unknown = [one.span for one in pieces if one.id == tokenizer.special.unknown and one.span]
        return list(dict.fromkeys(text[start:end] for start, end in unknown))

    def classify(
        self, texts: Iterable[str], *, batch_size: int = 32, attention: bool = False
    ) -> list[Classified]:
        """The class of each text, with its probability."""
        return self._classified(self._given("classify", texts), batch_size, attention)

    def _classified(
        self, read: list[Read], batch_size: int, attention: bool = False
    ) -> list[Classified]:
        answers = []
        for one, logits in zip(read, self._logits(read, batch_size), strict=True):
            shares = self.probabilities(logits.float()).tolist()
            of_each = dict(zip(self.class_names(len(shares)), shares, strict=True))
            best = max(of_each, key=of_each.__getitem__)
            seen = self._attention(self.pass_over(one.ids)) if attention else None
            answers.append(Classified(one.text, best, of_each[best], of_each, seen, **one.marks))
        return answers

    def probabilities(self, logits: Tensor) -> Tensor:
        """Softmax over the classes, or over the vocabulary."""
        return logits.softmax(dim=-1)

    def fill(
        self, texts: Iterable[str], *, n_best: int = GUESSES, batch_size: int = 32
    ) -> list[Filled]:
        """The likeliest words for each mask: `fill(["a <mask> film"])`."""
        return self._filled(self._given("fill", texts), batch_size, n_best)

    def _filled(self, read: list[Read], batch_size: int, n_best: int) -> list[Filled]:
        if not isinstance(n_best, int) or n_best < 1:
            raise ConfigError("n_best must be at least 1, got {n_best}", n_best=n_best)
        tokenizer = self.reader
        mask = tokenizer.special.mask
        assert mask is not None, "a model without a mask token has no task `fill`"
        for one in read:
            if mask not in one.ids:
                raise InputError(
                    "{text!r:.40} has no gap to fill: write {mask} where a word is missing",
                    text=one.text,
                    mask=tokenizer.token(mask),
                )
        answers = []
        for one, logits in zip(read, self._logits(read, batch_size), strict=True):
            ids, gaps = list(one.ids), []
            for place in [at for at, id_ in enumerate(one.ids) if id_ == mask]:
                shares = logits[place].float().softmax(dim=-1)
                best = shares.topk(min(n_best, len(shares)))
                found = best.indices.tolist()
                ids[place] = found[0]
                pairs = zip(found, best.values.tolist(), strict=True)
                gaps.append(tuple(Word(tokenizer.decode([i]).strip(), p, i) for i, p in pairs))
            answers.append(Filled(one.text, tokenizer.decode(ids), tuple(gaps), **one.marks))
        return answers

    def tag(self, texts: Iterable[str], *, batch_size: int = 32) -> list[Tagged]:
        """The class of each token of each text."""
        return self._tagged(self._given("tag", texts), batch_size)

    def _tagged(self, read: list[Read], batch_size: int) -> list[Tagged]:
        tokenizer = self.reader
        answers = []
        for one, logits in zip(read, self._logits(read, batch_size), strict=True):
            best = logits.float().softmax(dim=-1).max(dim=-1)
            names = self.class_names(logits.size(-1))
            tokens = zip(
                one.ids,
                tokenizer.display_tokens(one.ids),
                best.indices.tolist(),
                best.values.tolist(),
                strict=True,
            )
            tagged = tuple(
                LabelledToken(token, names[at], share)
                for id_, token, at, share in tokens
                if id_ not in tokenizer.special.silent
            )
            answers.append(Tagged(one.text, tagged, **one.marks))
        return answers

    def score(self, texts: Iterable[str], *, batch_size: int = 32) -> list[Scored]:
        """The one number that a model gives to each text."""
        return self._scored(self._given("score", texts), batch_size)

    def _scored(self, read: list[Read], batch_size: int) -> list[Scored]:
        return [
            Scored(one.text, float(logits[0]), **one.marks)
            for one, logits in zip(read, self._logits(read, batch_size), strict=True)
        ]

    def embed(self, texts: Iterable[str], *, batch_size: int = 32) -> list[Embedded]:
        """Each text as one vector of length 1."""
        return self._embedded(self._given("embed", texts), batch_size)

    def _embedded(self, read: list[Read], batch_size: int) -> list[Embedded]:
        vectors = (
            tuple(nn.functional.normalize(vector.float(), dim=-1).tolist())
            for vector in self._vectors(read, batch_size)
        )
        answers = zip(read, vectors, strict=True)
        return [Embedded(one.text, vector, **one.marks) for one, vector in answers]

    def translate(
        self,
        texts: Iterable[str],
        *,
        beam: int = 4,
        n_best: int = 1,
        search: Search | None = None,
        max_new: int | None = None,
        batch_size: int = 32,
        ledger: bool = False,
        attention: bool = False,
    ) -> list[Translated]:
        """The text that an encoder-decoder writes for each text.

        `search` instead of a beam for anything else. A text without words is answered without
        words.
        """
        read = self._given("translate", texts, may_be_empty=True)
        sources = [one.ids for one in read if not one.empty]
        wanted = search or Beam(size=beam, n_best=n_best)
        written = iter(self._translated(sources, wanted, max_new, batch_size, ledger))
        answers = []
        for one in read:
            if one.empty:
                answers.append(Translated(one.text, (_NO_WORDS,)))
                continue
            found, steps = next(written)
            reading = self.pass_over(one.ids, found[0].ids) if attention else None
            seen = None if reading is None else self._attention(reading)
            answers.append(Translated(one.text, found, steps, seen, **one.marks))
        return answers

    def _translated(
        self,
        sources: list[list[int]],
        search: Search,
        max_new: int | None,
        batch_size: int,
        ledger: bool,
    ) -> Iterable[Written]:
        raise NotImplementedError

    def generate(
        self,
        prompt: str,
        *,
        max_new: int = CONTINUATION,
        search: Search | None = None,
        ledger: bool = False,
        attention: bool = False,
    ) -> Generated:
        """A continuation of the prompt, drawn at temperature 0.8 unless a search is given."""
        read = self._prompt(prompt)
        found, steps = self._continued(read.ids, search or sampling_of({}), max_new, ledger)
        whole = [*read.ids, *found[0].ids][-(self.max_tokens or 0) :]
        seen = self._attention(self.pass_over(whole)) if attention else None
        return Generated(prompt, found, steps, seen, **read.marks)

    def stream(
        self, prompt: str, *, max_new: int = CONTINUATION, search: Greedy | Sampling | None = None
    ) -> Iterator[str]:
        """The same continuation, piece by piece as it is written."""
        return self._streamed(self._prompt(prompt).ids, search or sampling_of({}), max_new)

    def _prompt(self, prompt: str) -> Read:
        if "generate" not in self.tasks:
            raise self._cannot("generate")
        if not isinstance(prompt, str):
            raise InputError(
                "expected one prompt, a text, received {kind}; call generate once for each of "
                "several",
                kind=type(prompt).__name__,
            )
        return self._read_prompt(prompt)

    def _read_prompt(self, prompt: str) -> Read:
        """The ids that a continuation begins after; an empty prompt is a beginning."""
        raise NotImplementedError

    def _beginning(self) -> list[int]:
        """The token that an empty prompt begins with."""
        special = self.reader.special
        found = [id_ for id_ in (special.start, special.end) if id_ is not None][:1]
        if not found:
            raise InputError("the prompt is empty, and this model has no token to begin with")
        return found

    def _continued(self, ids: list[int], search: Search, max_new: int, ledger: bool) -> Written:
        raise NotImplementedError

    def _streamed(self, ids: list[int], search: Greedy | Sampling, max_new: int) -> Iterator[str]:
        raise NotImplementedError

    def recommend(self, people: Iterable[str], *, n: int = FILMS) -> list[Recommended]:
        """Films for each person: `#17` of the training data, or `films; that were; liked`."""
        raise self._cannot("recommend")

    def explore(self, text: str | None = None, **options: Any) -> Any:
        """The page on this model, opened on a text: what `glassformer.explore` returns."""
        from glassformer import explore

        return explore(self, text, **options)

    # --- refusals ---

    def _given(self, task: Task, texts: Iterable[str], *, may_be_empty: bool = False) -> list[Read]:
        """Texts for a task of this model, as it reads them; only some answer an empty one."""
        if task not in self.tasks:
            raise self._cannot(task)
        read = self.read(texts_of(texts))
        for number, one in enumerate(read):
            if not (may_be_empty or one.ids or one.image):
                raise InputError(
                    "text {number} is empty: there is nothing to read in {text!r:.40}",
                    number=number,
                    text=one.text,
                )
        return read

    def class_names(self, n_classes: int) -> Sequence[str]:
        """One name for each class; those that share one are numbered, so that none is lost."""
        names = self.labels or tuple(str(number) for number in range(n_classes))
        if len({*names}) == len(names):
            return names
        return tuple(
            f"{name} ({number})" if names.count(name) > 1 else name
            for number, name in enumerate(names)
        )

    def _cannot(self, asked: Task) -> ConfigError:
        return ConfigError(
            "{name} is {kind}: it cannot {asked}, use {task}",
            name=self.name,
            kind=self.kind,
            asked=asked,
            task=self.task,
        )


def texts_of(texts: Iterable[str]) -> list[str]:
    """A list of texts; a string is refused, since it would pass for a list of characters."""
    if isinstance(texts, str):
        raise InputError("expected a list of texts, got one string: write [text]")
    if not isinstance(texts, Iterable):
        raise InputError("expected a list of texts, received {kind}", kind=type(texts).__name__)
    given = list(texts)
    for number, text in enumerate(given):
        if not isinstance(text, str):
            raise InputError(
                "text {number} is not a string but {kind}", number=number, kind=type(text).__name__
            )
    return given

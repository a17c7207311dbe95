"""A loaded model and what it is for: strings in, typed results out.

    model = load("en-de")
    model.translate(["A dog runs."], beam=5)[0].text

Each method is for one kind of model; another kind is refused in one line. Nothing here reads
files or prints.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.checkpoint import Checkpoint
from glassformer.decoding import Beam, Decoded, Greedy, Sampling, Search, extend, stream, translate
from glassformer.decoding.fast import in_batches
from glassformer.decoding.stepper import pad
from glassformer.errors import ConfigError, InputError, expect
from glassformer.modes import evaluating
from glassformer.nn import (
    Classifier,
    LanguageModel,
    MaskedLanguageModel,
    MatrixFactorisation,
    Seq2Seq,
    TextEncoder,
    record_attention,
)
from glassformer.nn.models import pool
from glassformer.tasks.answers import NOTHING, Answer, Task, beam_of, check_options, sampling_of
from glassformer.tasks.reading import (
    Read,
    encode_texts,
    read_prompt,
    read_sources,
    read_texts,
    texts_of,
    tokenizer_of,
)
from glassformer.tasks.recommending import Titles, recommend
from glassformer.tasks.results import (
    Alternative,
    Attention,
    Classified,
    Embedded,
    Generated,
    Recommended,
    Translated,
    Unread,
)
from glassformer.text import Tokenizer

_TASKS: tuple[tuple[type[nn.Module], Task, str], ...] = (
    (Classifier, "classify", "a classifier"),
    (Seq2Seq, "translate", "a translator"),
    (LanguageModel, "generate", "a language model"),
    (MatrixFactorisation, "recommend", "a recommender"),
    (TextEncoder, "embed", "an encoder"),
    (MaskedLanguageModel, "embed", "an encoder"),
)
_CONTINUATION, _FILMS = 200, 10  # tokens and films, unless asked otherwise
_HALF_CHARACTER = "\N{REPLACEMENT CHARACTER}"  # of several bytes, cut by the maximum length
_NO_WORDS = Alternative("", score=0.0, log_probability=0.0, ended=True, ids=())


class Model:
    """A model with its tokenizer and labels, ready for use."""

    def __init__(self, checkpoint: Checkpoint, name: str = "this model") -> None:
        self.checkpoint = checkpoint
        self.name = name
        self._kinds = [(t, k) for c, t, k in _TASKS if isinstance(checkpoint.model, c)]
        if not self._kinds:
            raise InputError(
                "{name} is a {kind}: it does not read text",
                name=name,
                kind=type(checkpoint.model).__name__,
            )

    def __repr__(self) -> str:
        return f"Model({self.name!r}, {self._kinds[0][1]})"

    @property
    def task(self) -> Task:
        """What the model is for: the name of the method to call."""
        return self._kinds[0][0]

    def can_read(self, text: str) -> bool:
        """Whether a text holds anything that the model's vocabulary knows of."""
        expect(text, str, "a text", InputError)
        return not self.read([text])[0].empty

    def knows_nothing_of(self, text: str) -> bool:
        """Whether all of a text is unknown to the model, so that its answer means nothing."""
        expect(text, str, "a text", InputError)
        return self.read([text])[0].unknown

    def read(self, texts: Sequence[str]) -> list[Read]:
        """The ids of texts, as the model reads them: each is tokenised here, and once."""
        if self.task == "recommend":  # names, not tokens
            return [Read([], cut=False, empty=not text.strip(" ;")) for text in texts]
        readers = {"translate": read_sources, "generate": encode_texts}
        return readers.get(self.task, read_texts)(self.checkpoint, texts)

    def answer(self, texts: Iterable[str], *, batch_size: int = 32, **options: Any) -> list[Answer]:
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
            search, max_new = sampling_of(options), options.get("max_new", _CONTINUATION)
            return [self.generate(text, search=search, max_new=max_new) for text in given]
        read = self.read(given)
        written = [i for i, one in enumerate(read) if not one.empty]
        some, of_some = [given[i] for i in written], [read[i] for i in written]
        found: list[Answer]
        if self.task == "recommend":
            found = [*self.recommend(some, n=options.get("films", _FILMS))]
        elif self.task == "classify":
            found = [*self._classified(some, of_some, batch_size)]
        else:
            found = [*self._embedded(some, of_some, batch_size)]
        answers = dict(zip(written, found, strict=True))
        return [answers.get(i) or Unread(text, NOTHING[self.task]) for i, text in enumerate(given)]

    def classify(
        self, texts: Iterable[str], *, batch_size: int = 32, attention: bool = False
    ) -> list[Classified]:
        """The class of each text, with its probability."""
        if not isinstance(self.checkpoint.model, Classifier):
            raise self._cannot("classify")
        given = texts_of(texts)
        return self._classified(given, self._readable(given), batch_size, attention)

    @torch.inference_mode()
    def _classified(
        self,
        texts: Sequence[str],
        read: Sequence[Read],
        batch_size: int,
        attention: bool = False,
    ) -> list[Classified]:
        model = self.checkpoint.model
        assert isinstance(model, Classifier)
        labels = self._labels(model)
        rows = self._rows(read, batch_size, lambda *batch: model(*batch).float().softmax(dim=-1))
        answers = []
        for text, one, row in zip(texts, read, rows, strict=True):
            of_each = dict(zip(labels, row.tolist(), strict=True))
            best = max(of_each, key=of_each.__getitem__)
            seen = self._attention([one.ids]) if attention else None
            answers.append(
                Classified(text, best, of_each[best], of_each, one.cut, seen, one.unknown)
            )
        return answers

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
        """The translation of each text; `search` instead of a beam for anything else.

        A text without words has a translation without words.
        """
        model = self.checkpoint.model
        if not isinstance(model, Seq2Seq):
            raise self._cannot("translate")
        given = texts_of(texts)
        source = tokenizer_of(self.checkpoint)
        target = self.checkpoint.target_tokenizer or source
        start, end = target.special.start, target.special.end
        if start is None:
            raise ConfigError(
                "{name} cannot translate: its vocabulary has no start token", name=self.name
            )
        search = search or Beam(size=beam, n_best=n_best)
        sources = self.read(given)
        decoded = translate(
            model,
            [source.ids for source in sources if not source.empty],
            start=start,
            end=end,
            search=search,
            max_new=max_new,
            batch_size=batch_size,
            ledger=ledger,
        )
        found = iter(decoded)
        return [
            Translated(text, (_NO_WORDS,))
            if one.empty
            else self._translated(text, one, next(found), target, start, attention)
            for text, one in zip(given, sources, strict=True)
        ]

    def generate(
        self,
        prompt: str,
        *,
        max_new: int = _CONTINUATION,
        search: Search | None = None,
        ledger: bool = False,
        attention: bool = False,
    ) -> Generated:
        """A continuation of the prompt, drawn at temperature 0.8 unless a search is given."""
        model, tokenizer, read = self._prompt(prompt)
        decoded = extend(
            model,
            [read.ids],
            end=tokenizer.special.end,
            search=search or sampling_of({}),
            max_new=max_new,
            ledger=ledger,
        )[0]
        whole = [*read.ids, *decoded.best.tokens][-model.config.max_len :]
        return Generated(
            prompt,
            tuple(_alternatives(decoded, tokenizer)),
            read.cut,
            decoded.ledger,
            self._attention([whole]) if attention else None,
            read.unknown,
        )

    def stream(
        self, prompt: str, *, max_new: int = _CONTINUATION, search: Greedy | Sampling | None = None
    ) -> Iterator[str]:
        """The same continuation, piece by piece as it is written."""
        model, tokenizer, read = self._prompt(prompt)
        end = tokenizer.special.end
        ids = stream(model, read.ids, end=end, search=search or sampling_of({}), max_new=max_new)
        return _pieces(ids, tokenizer)

    def embed(self, texts: Iterable[str], *, batch_size: int = 32) -> list[Embedded]:
        """Each text as one vector of length 1."""
        model = self.checkpoint.model
        if not isinstance(model, TextEncoder | Classifier | MaskedLanguageModel):
            raise self._cannot("embed")
        given = texts_of(texts)
        return self._embedded(given, self._readable(given), batch_size)

    @torch.inference_mode()
    def _embedded(
        self, texts: Sequence[str], read: Sequence[Read], batch_size: int
    ) -> list[Embedded]:
        model = self.checkpoint.model
        assert isinstance(model, TextEncoder | Classifier | MaskedLanguageModel)

        def vectors_of(ids: Tensor, is_token: Tensor | None) -> Tensor:
            pooled = pool(model.encode(ids, is_token), model.config.output.pooling, is_token)
            return nn.functional.normalize(pooled.float(), dim=-1)

        rows = self._rows(read, batch_size, vectors_of)
        return [
            Embedded(text, tuple(row.tolist()), one.cut, one.unknown)
            for text, one, row in zip(texts, read, rows, strict=True)
        ]

    @torch.inference_mode()
    def recommend(self, people: Iterable[str], *, n: int = _FILMS) -> list[Recommended]:
        """Films for each person: `#17` of the training data, or `films; that were; liked`."""
        model = self.checkpoint.model
        if not isinstance(model, MatrixFactorisation):
            raise self._cannot("recommend")
        unnamed = (f"film {number}" for number in range(model.films.num_embeddings))
        titles = Titles(self.checkpoint.labels or tuple(unnamed))
        return [recommend(model, titles, text, n) for text in texts_of(people)]

    def _prompt(self, prompt: str) -> tuple[LanguageModel, Tokenizer, Read]:
        model = self.checkpoint.model
        if not isinstance(model, LanguageModel):
            raise self._cannot("generate")
        if not isinstance(prompt, str):
            raise InputError(
                "expected one prompt, a text, received {kind}; call generate once for each of "
                "several",
                kind=type(prompt).__name__,
            )
        return model, tokenizer_of(self.checkpoint), read_prompt(self.checkpoint, prompt)

    def _translated(
        self,
        text: str,
        read: Read,
        decoded: Decoded,
        target: Tokenizer,
        start: int,
        attention: bool,
    ) -> Translated:
        seen = self._attention([read.ids], [[start, *decoded.best.tokens]]) if attention else None
        alternatives = tuple(_alternatives(decoded, target))
        return Translated(text, alternatives, read.cut, decoded.ledger, seen, read.unknown)

    @torch.inference_mode()
    def _attention(self, *inputs: Sequence[Sequence[int]]) -> Attention:
        """The weights of one pass over one text, by layer."""
        model = self.checkpoint.model
        with evaluating(model.modules()), record_attention(model) as recorded:
            model(*(self._batch(one)[0] for one in inputs))
        return {name: weights[0].cpu() for name, weights in recorded.items()}

    def _rows(
        self,
        read: Sequence[Read],
        batch_size: int,
        answer: Callable[[Tensor, Tensor | None], Tensor],
    ) -> list[Tensor]:
        """One row of an answer for each text, made in batches of similar length."""

        def run(batch: list[int]) -> Tensor:
            return answer(*self._batch([read[i].ids for i in batch])).cpu()

        return in_batches(self.checkpoint.model, run, [len(one.ids) for one in read], batch_size)

    def _readable(self, texts: Sequence[str]) -> list[Read]:
        """Texts for a model that has no answer to an empty one."""
        read = read_texts(self.checkpoint, texts)
        for number, (text, one) in enumerate(zip(texts, read, strict=True)):
            if not one.ids:
                raise InputError(
                    f"text {number} is empty: there is nothing to read in {text!r:.40}"
                )
        return read

    def _batch(self, ids: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor | None]:
        return pad(ids, next(self.checkpoint.model.parameters()).device)

    def _labels(self, model: Classifier) -> tuple[str, ...]:
        n_classes = model.config.output.n_classes
        return self.checkpoint.labels or tuple(str(number) for number in range(n_classes))

    def _cannot(self, asked: Task) -> ConfigError:
        task, kind = self._kinds[0]
        return ConfigError(f"{self.name} is {kind}: it cannot {asked}, use {task}")


def _alternatives(decoded: Decoded, tokenizer: Tokenizer) -> Iterator[Alternative]:
    for one in decoded.hypotheses:
        text = tokenizer.decode(one.tokens)
        if not one.ended and text.endswith(_HALF_CHARACTER):
            pieces = tokenizer.stream()  # which tells half a character from bytes that are none
            whole = "".join(map(pieces.push, one.tokens))
            text = whole + pieces.finish().removesuffix(_HALF_CHARACTER)
        yield Alternative(text, one.score, one.log_probability, one.ended, one.tokens)


def _pieces(ids: Iterator[int], tokenizer: Tokenizer) -> Iterator[str]:
    """The text of ids that come one by one, whole characters at a time."""
    pieces = tokenizer.stream()
    for id_ in ids:
        if piece := pieces.push(id_):
            yield piece
    if rest := pieces.finish().removesuffix(_HALF_CHARACTER):
        yield rest

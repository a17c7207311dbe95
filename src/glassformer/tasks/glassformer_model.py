"""A model of our own modules: `Model` over a checkpoint. Reads no files and prints nothing."""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

import torch
from torch import Tensor, nn

from glassformer.checkpoint import Checkpoint
from glassformer.decoding import Beam, Decoded, Greedy, Sampling, Search, extend, stream, translate
from glassformer.decoding.fast import in_batches
from glassformer.decoding.stepper import pad
from glassformer.errors import ConfigError, InputError
from glassformer.modes import evaluating
from glassformer.nn import (
    Classifier,
    ImageClassifier,
    LanguageModel,
    MaskedLanguageModel,
    MatrixFactorisation,
    Seq2Seq,
    TextEncoder,
    record_attention,
    set_attention,
)
from glassformer.nn.attention import MultiHeadAttention
from glassformer.nn.models import pool
from glassformer.tasks.answers import Task, sampling_of
from glassformer.tasks.forward_pass import EmptyTextError, Pass, TooLongError, vocabulary_labels
from glassformer.tasks.images import image_tensor
from glassformer.tasks.model import CONTINUATION, FILMS, HALF_CHARACTER, Model
from glassformer.tasks.reading import (
    Read,
    encode_texts,
    read_masked,
    read_prompt,
    read_sources,
    read_texts,
    texts_of,
)
from glassformer.tasks.recommending import Titles, recommend
from glassformer.tasks.results import (
    Alternative,
    Attention,
    Generated,
    Recommended,
    Translated,
)
from glassformer.text import Tokenizer

_TASKS: tuple[tuple[type[nn.Module], tuple[Task, ...], str], ...] = (
    (Classifier, ("classify", "embed"), "a classifier"),
    (Seq2Seq, ("translate",), "a translator"),
    (LanguageModel, ("generate",), "a language model"),
    (MatrixFactorisation, ("recommend",), "a recommender"),
    (TextEncoder, ("embed",), "an encoder"),
    (MaskedLanguageModel, ("fill", "embed"), "a masked language model"),
    (ImageClassifier, ("classify",), "an image classifier"),
)
_NO_WORDS = Alternative("", score=0.0, log_probability=0.0, ended=True, ids=())


class GlassformerModel(Model):
    """A checkpoint of ours, ready for use."""

    def __init__(self, checkpoint: Checkpoint, name: str = "this model") -> None:
        self.checkpoint = checkpoint
        self.name = name
        self.module = checkpoint.model
        self.tokenizer = checkpoint.tokenizer
        self.target_tokenizer = checkpoint.target_tokenizer
        self.labels = checkpoint.labels
        found = [(tasks, kind) for c, tasks, kind in _TASKS if isinstance(self.module, c)]
        if not found:
            raise InputError(
                "{name} is a {kind}: it does not read text",
                name=name,
                kind=type(self.module).__name__,
            )
        self.tasks, self.kind = found[0]
        if isinstance(self.module, ImageClassifier):
            self.corpus = next(iter(checkpoint.about.get("checksums") or ()), None)
        if self.tasks[0] == "fill" and (
            self.tokenizer is None or self.tokenizer.special.mask is None
        ):
            self.tasks = ("embed",)

    @property
    def max_tokens(self) -> int | None:
        return self.checkpoint.config.max_len

    # --- reading ---

    def image_of(self, text: str) -> str | None:
        return text if isinstance(self.module, ImageClassifier) else None

    def read(self, texts: Sequence[str]) -> list[Read]:
        if isinstance(self.module, ImageClassifier):
            return [Read([], cut=False, empty=not text.strip(), source=text) for text in texts]
        if self.task == "recommend":  # names, not tokens
            return [Read([], cut=False, empty=not text.strip(" ;")) for text in texts]
        tokenizer = self.reader
        if self.task == "generate":
            return encode_texts(tokenizer, texts)
        if self.task == "translate":
            return read_sources(tokenizer, texts, self.checkpoint.config.max_len)
        read = read_masked if self.task == "fill" else encode_texts
        return read_texts(read(tokenizer, texts), self.checkpoint)

    def forward_pass(self, text: str, target: str | None = None) -> Pass:
        if self.task == "recommend":
            raise InputError("this {kind} does not read text", kind=type(self.module).__name__)
        if target is not None and self.task != "translate":
            raise InputError(
                "a {kind} has no target: only a translator takes one",
                kind=type(self.module).__name__,
            )
        if isinstance(self.module, ImageClassifier):
            return Pass(self._written, (self._pixels(text),), labels=self._output_labels)
        tokenizer = self.reader
        has_end = self.task == "translate" and tokenizer.special.end is not None
        ids = tokenizer.wrap(self._encoded(tokenizer, text), end=has_end)
        self._check_length(ids)
        if self.task != "translate":
            return self._pass(ids)
        if target is None:
            return self._pass(ids, self._greedy(ids))
        said = self._encoded(self.writer, target)
        self._check_length(said, before=1)
        return self._pass(ids, said)

    def _encoded(self, tokenizer: Tokenizer, text: str) -> list[int]:
        read = read_masked if self.task == "fill" else encode_texts
        ids = read(tokenizer, [text])[0].ids
        if not ids:
            raise EmptyTextError("the text is empty: a model needs at least one token")
        return ids

    def _check_length(self, ids: Sequence[int], before: int = 0) -> None:
        """Refuse ids that leave no room for `before` tokens in front of them."""
        most = self.checkpoint.config.max_len - before
        if len(ids) > most:
            raise TooLongError(len(ids), most)

    def _greedy(self, source: Sequence[int]) -> list[int]:
        """The target that greedy search finds, without its end token."""
        start, end = self._ends()
        assert isinstance(self.module, Seq2Seq)
        decoded = translate(self.module, [list(source)], start=start, end=end, search=Greedy())
        said = list(decoded[0].best.tokens)
        return said[:-1] if said and said[-1] == end else said

    def _ends(self) -> tuple[int, int | None]:
        special = self.writer.special
        if special.start is None:
            raise ConfigError(
                "{name} cannot translate: its vocabulary has no start token", name=self.name
            )
        return special.start, special.end

    def _pass(self, ids: Sequence[int], target: Sequence[int] = ()) -> Pass:
        module, device = self._written, next(self.module.parameters()).device
        labels = dict(self._output_labels)
        read = list(ids)
        arguments = [torch.tensor([read], device=device)]
        if isinstance(module, Seq2Seq):
            labels["source"] = self.reader.display_tokens(read)
            read = [self._ends()[0], *target]
            labels["target"] = self.writer.display_tokens(read)
            arguments.append(torch.tensor([read], device=device))
        else:
            labels["ids"] = self.reader.display_tokens(read)
        return Pass(module, tuple(arguments), labels=labels, ids=tuple(read))

    @cached_property
    def _written(self) -> nn.Module:
        """The module with attention written out, so that its steps have their source lines.

        If it is fused, a copy that shares every tensor.
        """
        attentions = [m for m in self.module.modules() if isinstance(m, MultiHeadAttention)]
        if all(attention.implementation == "written" for attention in attentions):
            return self.module
        tensors = (*self.module.parameters(), *self.module.buffers())
        shared = copy.deepcopy(self.module, {id(tensor): tensor for tensor in tensors})
        return set_attention(shared, "written")

    @cached_property
    def _output_labels(self) -> dict[str, list[str]]:
        """Words of the vocabulary, or names of classes, by the parameter whose rows they name."""
        module = self.module
        labels: dict[str, list[str]] = {}
        if isinstance(module, Classifier | ImageClassifier):
            labels = {"to_classes.weight": list(self.labels)} if self.labels else {}
        elif isinstance(module, LanguageModel | MaskedLanguageModel | Seq2Seq):
            labels = vocabulary_labels(module, module.to_vocabulary.weight, self.writer)
        return {name: texts for name, texts in labels.items() if len(texts) > 1}

    @torch.inference_mode()
    def _attention(self, reading: Pass) -> Attention:
        with evaluating(self.module.modules()), record_attention(self.module) as recorded:
            self.module(*reading.arguments)
        return {name: weights[0].cpu() for name, weights in recorded.items()}

    # --- answers ---

    def _pixels(self, source: str) -> Tensor:
        """An image as the module reads it (1, C, Y, X), from 0 to 1."""
        image = self.checkpoint.config.image
        found = image_tensor(source, image.size, image.channels, self.samples)
        return found.to(next(self.module.parameters()).device)

    @torch.inference_mode()
    def _logits(self, read: Sequence[Read], batch_size: int) -> list[Tensor]:
        if isinstance(self.module, ImageClassifier):
            with evaluating(self.module.modules()):
                return [self.module(self._pixels(one.source))[0].cpu() for one in read]
        rows = self._rows(read, batch_size, self.module)
        return [
            row[: len(one.ids)] if row.dim() > 1 else row
            for one, row in zip(read, rows, strict=True)
        ]

    @torch.inference_mode()
    def _vectors(self, read: Sequence[Read], batch_size: int) -> list[Tensor]:
        module = self.module
        assert isinstance(module, TextEncoder | Classifier | MaskedLanguageModel)

        def pooled(ids: Tensor, is_token: Tensor | None) -> Tensor:
            encoded = module.encode(ids, is_token)
            return pool(encoded, module.config.output.pooling, is_token)

        return self._rows(read, batch_size, pooled)

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
        module = self.module
        if not isinstance(module, Seq2Seq):
            raise self._cannot("translate")
        given = texts_of(texts)
        start, end = self._ends()
        sources = self.read(given)
        decoded = iter(
            translate(
                module,
                [source.ids for source in sources if not source.empty],
                start=start,
                end=end,
                search=search or Beam(size=beam, n_best=n_best),
                max_new=max_new,
                batch_size=batch_size,
                ledger=ledger,
            )
        )
        answers = []
        for text, read in zip(given, sources, strict=True):
            if read.empty:
                answers.append(Translated(text, (_NO_WORDS,)))
                continue
            one = next(decoded)
            seen = self._attention(self._pass(read.ids, one.best.tokens)) if attention else None
            alternatives = tuple(_alternatives(one, self.writer))
            answers.append(Translated(text, alternatives, read.cut, one.ledger, seen, read.unknown))
        return answers

    def generate(
        self,
        prompt: str,
        *,
        max_new: int = CONTINUATION,
        search: Search | None = None,
        ledger: bool = False,
        attention: bool = False,
    ) -> Generated:
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
            self._attention(self._pass(whole)) if attention else None,
            read.unknown,
        )

    def stream(
        self, prompt: str, *, max_new: int = CONTINUATION, search: Greedy | Sampling | None = None
    ) -> Iterator[str]:
        model, tokenizer, read = self._prompt(prompt)
        end = tokenizer.special.end
        ids = stream(model, read.ids, end=end, search=search or sampling_of({}), max_new=max_new)
        return _pieces(ids, tokenizer)

    @torch.inference_mode()
    def recommend(self, people: Iterable[str], *, n: int = FILMS) -> list[Recommended]:
        module = self.module
        if not isinstance(module, MatrixFactorisation):
            raise self._cannot("recommend")
        unnamed = (f"film {number}" for number in range(module.films.num_embeddings))
        titles = Titles(self.labels or tuple(unnamed))
        return [recommend(module, titles, text, n) for text in texts_of(people)]

    def _prompt(self, prompt: str) -> tuple[LanguageModel, Tokenizer, Read]:
        module = self.module
        if not isinstance(module, LanguageModel):
            raise self._cannot("generate")
        if not isinstance(prompt, str):
            raise InputError(
                "expected one prompt, a text, received {kind}; call generate once for each of "
                "several",
                kind=type(prompt).__name__,
            )
        tokenizer = self.reader
        return module, tokenizer, read_prompt(tokenizer, prompt, module.config.max_len)

    def _rows(
        self,
        read: Sequence[Read],
        batch_size: int,
        answer: Callable[[Tensor, Tensor | None], Tensor],
    ) -> list[Tensor]:
        """One row of an answer for each text, made in batches of similar length."""

        def run(batch: list[int]) -> Tensor:
            return answer(*pad([read[i].ids for i in batch], device)).cpu()

        device = next(self.module.parameters()).device
        return in_batches(self.module, run, [len(one.ids) for one in read], batch_size)


def _alternatives(decoded: Decoded, tokenizer: Tokenizer) -> Iterator[Alternative]:
    for one in decoded.hypotheses:
        text = tokenizer.decode(one.tokens)
        if not one.ended and text.endswith(HALF_CHARACTER):
            pieces = tokenizer.stream()  # which tells half a character from invalid bytes
            whole = "".join(map(pieces.push, one.tokens))
            text = whole + pieces.finish().removesuffix(HALF_CHARACTER)
        yield Alternative(text, one.score, one.log_probability, one.ended, one.tokens)


def _pieces(ids: Iterator[int], tokenizer: Tokenizer) -> Iterator[str]:
    """The text of ids that arrive one by one, whole characters at a time."""
    pieces = tokenizer.stream()
    for id_ in ids:
        if piece := pieces.push(id_):
            yield piece
    if rest := pieces.finish().removesuffix(HALF_CHARACTER):
        yield rest

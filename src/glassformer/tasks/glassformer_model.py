"""A model of our own modules: `Model` over a checkpoint. Reads no files and prints nothing."""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

import torch
from torch import Tensor, nn

from glassformer.checkpoint import Checkpoint
from glassformer.decoding import Decoded, Greedy, Sampling, Search, extend, stream, translate
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
from glassformer.tasks.answers import (
    Alternative,
    Attention,
    Recommended,
    Task,
)
from glassformer.tasks.forward_pass import Pass, Read, vocabulary_labels
from glassformer.tasks.images import image_tensor
from glassformer.tasks.model import FILMS, HALF_CHARACTER, Model, Written, texts_of
from glassformer.tasks.recommending import Titles, recommend
from glassformer.text import Tokenizer
from glassformer.text.tokenizer import Cut, cut_ids

_TASKS: tuple[tuple[type[nn.Module], tuple[Task, ...], str], ...] = (
    (Classifier, ("classify", "embed"), "a classifier"),
    (Seq2Seq, ("translate",), "a translator"),
    (LanguageModel, ("generate",), "a language model"),
    (MatrixFactorisation, ("recommend",), "a recommender"),
    (TextEncoder, ("embed",), "an encoder"),
    (MaskedLanguageModel, ("fill", "embed"), "a masked language model"),
    (ImageClassifier, ("classify",), "an image classifier"),
)


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
            return [Read(text, [], empty=not text.strip(), image=text) for text in texts]
        if self.task == "recommend":  # names, not tokens
            return [Read(text, [], empty=not text.strip(" ;")) for text in texts]
        return [self._read(*each) for each in zip(texts, self._encode(texts), strict=True)]

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        """All ids of each text: the one place where texts are tokenised.

        For a masked language model `<mask>` in a text is the mask, unlike in any other text.
        """
        tokenizer, mask = self.reader, self.reader.special.mask
        if self.task != "fill" or mask is None or mask in tokenizer.encode(tokenizer.token(mask)):
            return tokenizer.encode_batch(texts)  # others' tokenizers find the mask themselves
        encoded = []
        for text in texts:
            *parts, last = text.split(tokenizer.token(mask))
            ids: list[int] = []
            for part in parts:  # a space before the mask belongs to the word that is missing
                ids += [*tokenizer.encode(part.rstrip()), mask]
            encoded.append([*ids, *tokenizer.encode(last)])
        return encoded

    def _read(self, text: str, ids: list[int]) -> Read:
        """What the model was trained to read of a long text; of a prompt it continues, all."""
        max_len, special = self.checkpoint.config.max_len, self.reader.special
        empty, unknown = not (ids and text.strip()), set(ids) == {special.unknown}
        if self.task == "translate":  # the end token is never cut
            has_end = special.end is not None
            kept, cut = self.reader.wrap(ids, end=has_end, max_len=max_len), len(ids) + has_end
            return Read(text, kept, cut > max_len, empty, unknown)
        if self.task == "generate":
            return Read(text, ids, False, empty, unknown)
        where: Cut = "middle" if self.checkpoint.about.get("cut") == "middle" else "end"
        return Read(text, cut_ids(ids, max_len, where), len(ids) > max_len, empty, unknown)

    def _image_pass(self, source: str) -> Pass:
        return Pass(self._written, (self._pixels(source),), labels=self._output_labels)

    def _ids_of(self, text: str) -> list[int]:
        if self.task == "recommend":
            raise InputError("this {kind} does not read text", kind=type(self.module).__name__)
        (ids,) = self._encode([text])
        has_end = self.task == "translate" and self.reader.special.end is not None
        return self.reader.wrap(ids, end=has_end) if ids else []

    def _target_ids(self, target: str) -> list[int]:
        return self.writer.encode(target)

    def _greedy(self, source: Sequence[int]) -> list[int]:
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

    def pass_over(self, ids: Sequence[int], target: Sequence[int] = ()) -> Pass:
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
                return [self.module(self._pixels(one.text))[0].cpu() for one in read]
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

    def _translated(
        self,
        sources: list[list[int]],
        search: Search,
        max_new: int | None,
        batch_size: int,
        ledger: bool,
    ) -> Iterator[Written]:
        assert isinstance(self.module, Seq2Seq)
        start, end = self._ends()
        decoded = translate(
            self.module,
            sources,
            start=start,
            end=end,
            search=search,
            max_new=max_new,
            batch_size=batch_size,
            ledger=ledger,
        )
        return ((tuple(_alternatives(one, self.writer)), one.ledger) for one in decoded)

    def _read_prompt(self, prompt: str) -> Read:
        """A line break is where texts begin that were trained on as one long text; other models
        have a token for it.
        """
        (read,) = self.read([prompt])
        ids, special = read.ids, self.reader.special
        if not ids:
            line_break = self.reader.encode("\n")
            is_token = len(line_break) == 1 and line_break[0] != special.unknown
            ids = line_break if is_token else self._beginning()
        return read._replace(ids=ids, cut=len(ids) > self.checkpoint.config.max_len)

    def _continued(self, ids: list[int], search: Search, max_new: int, ledger: bool) -> Written:
        assert isinstance(self.module, LanguageModel)
        end = self.reader.special.end
        (decoded,) = extend(
            self.module, [ids], end=end, search=search, max_new=max_new, ledger=ledger
        )
        return tuple(_alternatives(decoded, self.reader, after=ids)), decoded.ledger

    def _streamed(self, ids: list[int], search: Greedy | Sampling, max_new: int) -> Iterator[str]:
        assert isinstance(self.module, LanguageModel)
        end = self.reader.special.end
        written = stream(self.module, ids, end=end, search=search, max_new=max_new)
        return _pieces(written, self.reader, after=ids)

    @torch.inference_mode()
    def recommend(self, people: Iterable[str], *, n: int = FILMS) -> list[Recommended]:
        module = self.module
        if not isinstance(module, MatrixFactorisation):
            raise self._cannot("recommend")
        unnamed = (f"film {number}" for number in range(module.films.num_embeddings))
        titles = Titles(self.labels or tuple(unnamed))
        return [recommend(module, titles, text, n) for text in texts_of(people)]

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


def _alternatives(
    decoded: Decoded, tokenizer: Tokenizer, *, after: Sequence[int] = ()
) -> Iterator[Alternative]:
    """The hypotheses with their texts, which continue that of the ids `after`."""
    for one in decoded.hypotheses:
        text = tokenizer.decode_after(after, one.tokens)
        if not one.ended and text.endswith(HALF_CHARACTER):
            pieces = tokenizer.stream()  # which tells half a character from invalid bytes
            pieces.skip(after)
            whole = "".join(map(pieces.push, one.tokens))
            text = whole + pieces.finish().removesuffix(HALF_CHARACTER)
        yield Alternative(text, one.score, one.log_probability, one.ended, one.tokens)


def _pieces(ids: Iterator[int], tokenizer: Tokenizer, *, after: Sequence[int]) -> Iterator[str]:
    """The text of ids that arrive one by one `after` others, whole characters at a time."""
    pieces = tokenizer.stream()
    pieces.skip(after)
    for id_ in ids:
        if piece := pieces.push(id_):
            yield piece
    if rest := pieces.finish().removesuffix(HALF_CHARACTER):
        yield rest

"""Models as ONNX graphs for any batch size and length, checked with onnxruntime.

    classifier        model.onnx: ids, is_token → probabilities
    language model    decoder.onnx: token, past… → logits, past…
    encoder-decoder   encoder.onnx: source, is_token → keys and values; decoder.onnx beside it

onnx and onnxruntime are imported only here, and only for an export.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, cat, nn
from torch.export import Dim

from glassformer.checkpoint import Checkpoint
from glassformer.decoding import Greedy, extend, translate
from glassformer.errors import ExportError, Fragment, NotInstalledError
from glassformer.export.compatibility import agreement, facts_of, padded, probe_ids, traced
from glassformer.nn import (
    Classifier,
    DecodingCache,
    LanguageModel,
    ModelConfig,
    MultiHeadAttention,
    Seq2Seq,
)
from glassformer.nn.attention import split_heads
from glassformer.nn.cache import KeyValueCache

# --- the graphs ---
# Our models as modules with plain tensors in and out, which torch can trace. A cache becomes a list
# of tensors, passed in and returned longer. Dims: B batch, T and S positions, P positions so far,
# H heads, E head width, V vocabulary, C classes.


class _ConcatenatedCache(KeyValueCache):
    """A cache that grows by concatenation: a graph cannot reserve capacity."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        super().__init__()
        self.length = keys.size(2)
        self._keys, self._values = keys, values

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        past_keys, past_values = self.read()
        self._keys, self._values = cat([past_keys, keys], 2), cat([past_values, values], 2)
        self.length = self._keys.size(2)
        return self._keys, self._values

    def read(self) -> tuple[Tensor, Tensor]:
        assert self._keys is not None and self._values is not None
        return self._keys, self._values


class ClassifierGraph(nn.Module):
    """(ids (B, T), is_token (B, T)) → probabilities (B, C)."""

    def __init__(self, model: Classifier) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, is_token: Tensor) -> Tensor:
        logits: Tensor = self.model(ids, is_token)
        return logits.softmax(dim=-1)


class EncoderGraph(nn.Module):
    """(source (B, S), is_token (B, S)) → keys and values of each cross-attention, (B, H, S, E)."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, is_token: Tensor) -> list[Tensor]:
        """Everything that the decoder needs of the source."""
        memory = self.model.encode(source, is_token)
        projected = []
        for block in self.model.decoder.blocks:
            attention = block.get_submodule("cross_attention")
            assert isinstance(attention, MultiHeadAttention)
            projected.append(split_heads(attention.to_keys(memory), attention.n_kv_heads))
            projected.append(split_heads(attention.to_values(memory), attention.n_kv_heads))
        return projected


class DecoderGraph(nn.Module):
    """(token (B, 1), past keys and values…, and for a translator is_token and the encoder's) →
    logits (B, V), all keys and values so far."""

    def __init__(self, model: Seq2Seq | LanguageModel) -> None:
        super().__init__()
        self.model = model
        self.n_layers = len(model.decoder.blocks)

    def forward(
        self,
        token: Tensor,
        past: list[Tensor],
        is_token: Tensor | None = None,
        source: list[Tensor] | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        """One step."""
        cache = DecodingCache(list(_caches(past)), list(_caches(source or [])), past[0].size(2))
        if isinstance(self.model, Seq2Seq):
            assert is_token is not None and source is not None
            # The keys are cached, so only the shape of the memory matters.
            memory = token.new_zeros((*is_token.shape, 1), dtype=past[0].dtype)
            logits = self.model.decode(
                token, memory.expand(-1, -1, self.model.config.d_model), is_token, cache=cache
            )
        else:
            cache.cross_attention = [KeyValueCache() for _ in range(self.n_layers)]
            logits = self.model(token, cache=cache)
        longer = [tensor for layer in cache.self_attention for tensor in layer.read()]
        return logits[:, -1], longer


def _caches(tensors: list[Tensor]) -> list[KeyValueCache]:
    pairs = zip(tensors[::2], tensors[1::2], strict=True)
    return [_ConcatenatedCache(keys, values) for keys, values in pairs]


# --- writing and checking ---

_STEPS = 12  # tokens that the check decodes per text, if they fit
_SHORTEST = 4  # below this, a length may be 0 or 1, which torch takes for a constant


def check(config: ModelConfig) -> None:
    """Refuse a model that has no graph here."""
    if config.architecture not in ("classifier", "language_model", "seq2seq"):
        raise ExportError(
            "there is no ONNX export for the architecture {architecture}",
            architecture=config.architecture,
        )
    if config.output.flattened:
        raise ExportError("there is no ONNX export for a flattened output layer")
    if config.max_len < _SHORTEST:
        raise ExportError(
            "an ONNX graph takes texts of any length, but this model reads at most {max_len} "
            "tokens; expected max_len {shortest} or more",
            max_len=config.max_len,
            shortest=_SHORTEST,
        )


def write(checkpoint: Checkpoint, folder: Path) -> None:
    _onnxruntime()  # fail before the work, not after it
    model, facts = checkpoint.model, facts_of(checkpoint)
    batch, past = Dim("batch"), Dim("past", max=checkpoint.config.max_len - 1)
    ids, is_token = _example(checkpoint)
    if isinstance(model, Classifier):
        shapes = {0: batch, 1: Dim("length", max=checkpoint.config.max_len)}
        graph: nn.Module = ClassifierGraph(model)
        _save(graph, (ids, is_token), (shapes, shapes), folder / "model.onnx", facts)
        return
    assert isinstance(model, Seq2Seq | LanguageModel)
    token, pasts = ids[:, :1].contiguous(), _past(model, len(ids), 3)
    past_shapes = [{0: batch, 2: past} for _ in pasts]
    if isinstance(model, LanguageModel):
        arguments: tuple[Any, ...] = (token, pasts)
        dynamic: tuple[Any, ...] = ({0: batch}, past_shapes)
    else:
        source_shapes = {0: batch, 1: Dim("source", max=checkpoint.config.max_len)}
        both = (source_shapes, source_shapes)
        _save(EncoderGraph(model), (ids, is_token), both, folder / "encoder.onnx", facts)
        read = EncoderGraph(model)(ids, is_token)
        arguments = (token, pasts, is_token, read)
        read_shapes = [{0: batch, 2: source_shapes[1]} for _ in read]
        dynamic = ({0: batch}, past_shapes, source_shapes, read_shapes)
    _save(DecoderGraph(model), arguments, dynamic, folder / "decoder.onnx", facts)


def verify(checkpoint: Checkpoint, folder: Path) -> str:
    """Compare the graphs with the model; returns the result in words, raises if they differ."""
    model = checkpoint.model
    if isinstance(model, Classifier):
        return _verify_classifier(model, checkpoint, folder)
    assert isinstance(model, Seq2Seq | LanguageModel)
    texts = probe_ids(checkpoint, 6)
    n_new = min(_STEPS, checkpoint.config.max_len)  # the graph has no further positions
    tokenizer = checkpoint.target_tokenizer or checkpoint.tokenizer
    start = tokenizer.special.start if tokenizer is not None else None
    if isinstance(model, Seq2Seq):
        begun = [[start or 0]] * len(texts)
        ours = translate(model, texts, start=start or 0, end=None, search=Greedy(), max_new=n_new)
    else:
        room = checkpoint.config.max_len - n_new
        texts = begun = [ids[: max(1, room)] for ids in texts]
        ours = extend(model, texts, end=None, search=Greedy(), max_new=n_new)
    run = _Runner(model, folder)
    same = 0
    for text, prefix, expected in zip(texts, begun, ours, strict=True):
        same += run.greedy(text, prefix, n_new) == list(expected.best.tokens)
    if same < len(texts):
        raise ExportError(
            "onnxruntime's output differs from the model's for {n} of {n_texts} texts",
            n=len(texts) - same,
            n_texts=len(texts),
        )
    return Fragment.of(
        "onnxruntime generates the same {n_new} tokens as the model for all {same} texts",
        n_new=n_new,
        same=same,
    )


def _verify_classifier(model: Classifier, checkpoint: Checkpoint, folder: Path) -> str:
    session = _session(folder / "model.onnx")
    texts = probe_ids(checkpoint)
    differences = []
    for batch in (texts, texts[:1], texts[3:5]):  # batch sizes and lengths that were not traced
        ids, is_token = padded(batch)
        with torch.inference_mode():
            ours = model(ids, is_token).softmax(dim=-1)
        (theirs,) = session.run(None, {"ids": ids.numpy(), "is_token": is_token.numpy()})
        differences.append(float((ours - torch.from_numpy(theirs)).abs().max()))
    return agreement("onnxruntime", differences, 1e-5)


class _Runner:
    """Greedy decoding with the exported graphs, as another program would do it."""

    def __init__(self, model: Seq2Seq | LanguageModel, folder: Path) -> None:
        self.model = model
        self.decoder = _session(folder / "decoder.onnx")
        self.encoder = _session(folder / "encoder.onnx") if isinstance(model, Seq2Seq) else None

    def greedy(self, text: Sequence[int], prefix: Sequence[int], n_new: int) -> list[int]:
        state = [tensor.numpy() for tensor in _past(self.model, 1, 0)]
        fixed = []
        if self.encoder is not None:
            source = np.array([text], dtype=np.int64)
            is_token = np.ones_like(source, dtype=bool)
            read = self.encoder.run(None, {"source": source, "is_token": is_token})
            fixed = [is_token, *read]
        names = [one.name for one in self.decoder.get_inputs()]
        written: list[int] = []
        queue = list(prefix)
        while len(written) < n_new:
            token = queue.pop(0) if queue else written[-1]
            inputs = [np.array([[token]], dtype=np.int64), *state, *fixed]
            logits, *state = self.decoder.run(None, dict(zip(names, inputs, strict=True)))
            if not queue:
                written.append(int(logits[0].argmax()))
        return written


def _past(model: Seq2Seq | LanguageModel, n_texts: int, length: int) -> list[Tensor]:
    attention = model.config.attention
    width = attention.head_width(model.config.d_model)
    heads = attention.n_kv_heads or attention.n_heads
    rng = torch.Generator().manual_seed(0)
    widths = (width, attention.d_value or width) * len(model.decoder.blocks)
    return [torch.randn(n_texts, heads, length, w, generator=rng) for w in widths]


def _example(checkpoint: Checkpoint) -> tuple[Tensor, Tensor]:
    return padded(probe_ids(checkpoint, 8)[1:4])


def _save(graph: nn.Module, arguments: Any, shapes: Any, file: Path, facts: dict[str, str]) -> None:
    with _quiet(), traced():
        program = torch.onnx.export(
            graph.eval(), arguments, dynamic_shapes=shapes, dynamo=True, verbose=False
        )
        assert program is not None
        program.model.metadata_props.update(facts)
        program.save(str(file))


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter, which warns about packages that are not needed."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logger.setLevel(level)


def _session(file: Path) -> Any:
    return _onnxruntime().InferenceSession(str(file), providers=["CPUExecutionProvider"])


def _onnxruntime() -> Any:
    try:
        import onnxruntime
        import onnxscript  # noqa: F401  # the exporter needs it, but its error is less clear
    except ImportError as error:
        raise NotInstalledError(
            "this export needs {name}: pip install 'glassformer[onnx]'", name=error.name
        ) from None
    return onnxruntime

"""A model as a readable tree with parameter counts; equal consecutive parts share one line."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from glassformer.errors import expect
from glassformer.nn.attention import Implementation
from glassformer.nn.config import ModelConfig
from glassformer.nn.layers import TokenEmbedding
from glassformer.nn.models import build


def describe_config(config: ModelConfig) -> str:
    """The tree of the model that a config would build, without allocating its parameters."""
    return describe(_without_memory(config))


def parameter_shapes(config: ModelConfig) -> dict[str, torch.Size]:
    """The parameters that a config would build, by name; shared ones once, by their first name.

    Only one block of each stack is built, without allocating memory: the time does not grow with
    the sizes in an untrusted config.
    """
    depths = {
        "encoder": config.n_layers,
        "decoder": config.n_layers if config.n_decoder_layers is None else config.n_decoder_layers,
    }
    if config.architecture != "seq2seq":
        depths["decoder"] = config.n_layers
    one_deep = config.with_(
        n_layers=min(1, config.n_layers), n_decoder_layers=min(1, depths["decoder"])
    )
    if config.positions.kind != "learned":  # their table may be of any length, and is no parameter
        one_deep = one_deep.with_(positions__kind="none")
    model = _without_memory(one_deep)
    shapes: dict[str, torch.Size] = {}
    for name, parameter in model.named_parameters():
        stack, marker, rest = name.partition(".blocks.0.")
        copies = (f"{stack}.blocks.{i}.{rest}" for i in range(depths[stack])) if marker else (name,)
        shapes |= dict.fromkeys(copies, parameter.shape)
    return shapes


_INITIALISERS = (Tensor.normal_, Tensor.uniform_, Tensor.zero_, Tensor.fill_)


class _NoInitialisation(TorchFunctionMode):
    """Skips the initialisation of parameters.

    To draw random numbers on the meta device, torch loads its whole compiler, which takes seconds.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function, unless it initialises a tensor."""
        named = kwargs or {}
        if getattr(func, "__module__", "") == "torch.nn.init" or func in _INITIALISERS:
            return args[0] if args else named["tensor"]
        return func(*args, **named)


def build_unfilled(config: ModelConfig, attention: Implementation = "fused") -> nn.Module:
    """The model of a config for weights that are about to be copied into all its parameters.

    It draws no random number: a training run in the same process would miss it.
    """
    with _NoInitialisation():
        return build(config, attention)


def _without_memory(config: ModelConfig) -> nn.Module:
    """The model of a config on the meta device: shapes only."""
    with torch.device("meta"), _NoInitialisation():
        return build(config)


def describe(model: nn.Module) -> str:
    """One line per part: name, kind, settings, parameters; totals at the end."""
    expect(model, nn.Module, "a model to describe")
    rows = list(_rows(model, type(model).__name__, set()))
    rows.append(("parameters", f"{count_parameters(model):,}"))
    without = f"{count_parameters(model, embeddings=False):,}"
    rows.append(("without embeddings and output map", without))
    left, right = (max(len(row[side]) for row in rows) for side in (0, 1))
    return "\n".join(f"{name:<{left}}  {count:>{right}}".rstrip() for name, count in rows)


def count_parameters(model: nn.Module, *, embeddings: bool = True) -> int:
    """Shared parameters count once; `embeddings=False` excludes tables and vocabulary maps."""
    expect(model, nn.Module, "a model")
    left_out: set[int] = set()
    if not embeddings:
        tables = [m for m in model.modules() if isinstance(m, TokenEmbedding | nn.Embedding)]
        outputs = [
            m for n, m in model.named_modules() if n.endswith(("to_vocabulary", "to_classes"))
        ]
        for part in (*tables, *outputs):
            left_out |= {id(p) for p in part.parameters()}
    return sum(p.numel() for p in model.parameters() if id(p) not in left_out)


def _rows(
    module: nn.Module, label: str, seen: set[int], depth: int = 0, times: int = 1
) -> Iterator[tuple[str, str]]:
    """The lines of a module and its parts; `seen` are the ids of parameters already listed."""
    settings = _settings(module)
    text = f"{'  ' * depth}{label}" + (f" ({settings})" if settings else "")
    yield text, _count(module, times, seen)
    for name, child in module.named_children():
        if isinstance(child, nn.ModuleList):
            for numbers, n_equal, item in _folded(child):
                part = f"{name}.{numbers}: {type(item).__name__}"
                yield from _rows(item, part, seen, depth + 1, n_equal)
        elif not isinstance(child, nn.Dropout) or child.p:
            yield from _rows(child, f"{name}: {type(child).__name__}", seen, depth + 1)
    seen |= {id(p) for p in module.parameters(recurse=False)}


def _count(module: nn.Module, times: int, seen: set[int]) -> str:
    """The number of parameters not listed yet; listed ones are "shared"."""
    new = sum(p.numel() for p in module.parameters() if id(p) not in seen)
    shared = any(id(p) in seen for p in module.parameters())
    count = f"{new:,}" if times == 1 else f"{times} × {new:,}"
    if not new:
        return "shared" if shared else ""
    return f"{count} + shared" if shared else count


def _settings(module: nn.Module) -> str:
    """A part's settings, shorter than torch's own description."""
    if isinstance(module, nn.Linear):
        return f"{module.in_features} → {module.out_features}" + ", bias" * (
            module.bias is not None
        )
    if isinstance(module, nn.LayerNorm | nn.RMSNorm):
        return f"eps={module.eps:g}"
    if isinstance(module, nn.Dropout):
        return f"{module.p:g}"
    return module.extra_repr()


def _folded(modules: nn.ModuleList) -> Iterator[tuple[str, int, nn.Module]]:
    """The items with equal consecutive ones folded: "0-5", 6, the first of them."""
    for _, run in groupby(enumerate(modules), key=lambda item: repr(item[1])):
        equal = list(run)
        first, last = equal[0][0], equal[-1][0]
        yield (f"{first}" if first == last else f"{first}-{last}"), len(equal), equal[0][1]

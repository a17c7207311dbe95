"""Compile models in a separate process: `python -m tests.nn.compile_models WHAT ...`.

WHAT is `graphs`, `all-graphs`, `kernels` or `export`. The shape checks of the test process wrap our
functions, which a full graph cannot capture; users have no such wrappers. Prints one JSON object:
for each WHAT and each name, the largest difference from eager mode relative to the largest entry,
of output and of gradients.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from tests.nn.oracles import seeded, share
from tests.nn.small import EVERY, inputs_for, make, tiny


def variants() -> dict[str, tuple[nn.Module, tuple[Tensor, ...]]]:
    """Every small model, one block deep, with inputs; some with a mask, some written out."""
    configs = {name: config.with_(n_layers=1) for name, config in EVERY.items()}
    models = {name: (make(config), inputs_for(config)) for name, config in configs.items()}
    is_token = torch.arange(6) < torch.tensor([6, 3])[:, None]
    for name in ("encoder", "classifier", "gpt2", "seq2seq"):
        model, inputs = models[name]
        models[f"{name}, padded"] = (model, (*inputs, is_token))
    for name in ("encoder", "llama", "seq2seq"):
        models[f"{name}, written"] = (make(configs[name], attention="written"), models[name][1])
    return models


def compare(
    compiled: Callable[..., Tensor], eager: nn.Module, inputs: tuple[Tensor, ...]
) -> dict[str, float]:
    got, expected = compiled(*inputs), eager(*inputs)
    direction = seeded(*expected.shape, dtype=expected.dtype)
    parameters = list(eager.parameters())
    ours = torch.autograd.grad((got * direction).sum(), parameters, allow_unused=True)
    theirs = torch.autograd.grad((expected * direction).sum(), parameters, allow_unused=True)
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if a is not None and b is not None]
    largest = max(float(b.abs().max()) for _, b in pairs)
    gradient = max(float((a - b).abs().max()) for a, b in pairs) / largest
    return {"output": share(got, expected), "gradient": gradient}


SOME = ("llama", "classifier, padded", "seq2seq, padded", "encoder, written")
"""Between them every kind of attention, mask, norm, feed-forward and position that we have."""


def graphs() -> dict[str, dict[str, float]]:
    """Some models as one graph, one with its backward pass, one at other lengths."""
    models = variants()
    differences = {name: compare(whole(models[name][0]), *models[name]) for name in SOME}
    model, inputs = models["gpt2"]
    differences["gpt2, backward"] = compare(whole(model, "aot_eager"), model, inputs)
    differences["gpt2, lengths"] = at_other_lengths("gpt2")
    return differences


def all_graphs() -> dict[str, dict[str, float]]:
    """Every model as one graph, some with the graph of their backward pass or at other lengths."""
    models = variants()
    differences = {name: compare(whole(model), model, x) for name, (model, x) in models.items()}
    for name in ("gpt2", "seq2seq"):
        model, inputs = models[name]
        differences[f"{name}, backward"] = compare(whole(model, "aot_eager"), model, inputs)
    for name in ("gpt2", "llama", "seq2seq"):
        differences[f"{name}, lengths"] = at_other_lengths(name)
    return differences


def whole(model: nn.Module, backend: str = "eager") -> Callable[..., Tensor]:
    """The model as one graph, with the compiler's caches cleared."""
    torch.compiler.reset()
    compiled: Callable[..., Tensor] = torch.compile(model, fullgraph=True, backend=backend)
    return compiled


def at_other_lengths(name: str) -> dict[str, float]:
    """A causal model compiled once and called at three lengths, so that sizes become symbolic."""
    model = make(EVERY[name].with_(n_layers=1)).eval()
    compiled = whole(model)
    worst = 0.0
    for length in (3, 5, 7):
        ids = torch.randint(1, 13, (2, length), generator=torch.Generator().manual_seed(0))
        inputs = (ids,) * (2 if name == "seq2seq" else 1)
        worst = max(worst, share(compiled(*inputs), model(*inputs)))
    return {"output": worst}


def kernels() -> dict[str, dict[str, float]]:
    """The default backend, forward only: compiling a backward pass takes half a minute more."""
    model, inputs = variants()["gpt2"]
    with torch.no_grad():
        return {"gpt2": {"output": share(whole(model, "inductor")(*inputs), model(*inputs))}}


def export() -> dict[str, dict[str, float]]:
    """A classifier exported to a file and loaded again, at lengths it was not traced with."""
    model = make(tiny("classifier", pad_id=0)).eval()
    ids = torch.randint(1, 13, (3, 7), generator=torch.Generator().manual_seed(0))
    ids[1, 4:] = 0
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", max=16)
    exported = torch.export.export(model, (ids,), dynamic_shapes={"ids": {0: batch, 1: length}})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "classifier.pt2"
        torch.export.save(exported, path)
        again = torch.export.load(path).module()
    longer = ids.repeat(2, 2)
    return {
        "classifier": {
            "same shape": share(again(ids), model(ids)),
            "another shape": share(again(longer), model(longer)),
        }
    }


def main() -> None:
    torch.set_num_threads(1)
    what = {"graphs": graphs, "all-graphs": all_graphs, "kernels": kernels, "export": export}
    print(json.dumps({name: what[name]() for name in sys.argv[1:]}))  # noqa: T201


if __name__ == "__main__":
    main()

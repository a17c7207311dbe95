"""The operators of backward passes: each has a rule, and each rule an example here."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

X = torch.linspace(-2, 3, 24).reshape(2, 3, 4).sin() * 3
G = torch.linspace(1, -2, 24).reshape(2, 3, 4).cos()
ROWS, INCOMING = X.flatten(0, 1), G.flatten(0, 1)
TARGETS = torch.tensor([1, 3, -100, 0, 2, 2])
CLASS_WEIGHTS = torch.tensor([0.5, 1.0, 2.0, 0.25])
IMAGE_TARGETS = torch.tensor([[[0, 2]], [[1, 1]]])
GAIN, BIAS = torch.tensor([1.0, 0.5, -2.0, 1.5]), torch.tensor([0.0, 1.0, 0.5, -1.0])


def layer_norm(x: Tensor, g: Tensor, gain: Tensor | None, bias: Tensor | None) -> Any:
    shape = [4]
    _, mean, scale = aten.native_layer_norm(x, shape, gain, bias, 1e-5)
    return aten.native_layer_norm_backward(
        g, x, shape, mean, scale, gain, bias, [True, gain is not None, bias is not None]
    )


def nll_loss(reduction: int, weight: Tensor | None) -> Any:
    loss, count = aten.nll_loss_forward(ROWS, TARGETS, weight, reduction, -100)
    g = torch.full_like(loss, 0.5)
    return aten.nll_loss_backward(g, ROWS, TARGETS, weight, reduction, -100, count), loss


def nll_loss_of_an_image() -> Any:
    x = X[:, :, None, :2]
    loss, count = aten.nll_loss2d_forward(x, IMAGE_TARGETS, None, 1, 1)
    g = torch.full_like(loss, 2.0)
    return aten.nll_loss2d_backward(g, x, IMAGE_TARGETS, None, 1, 1, count), loss


def embedding(padding: int, by_count: bool) -> Tensor:
    ids = torch.tensor([[0, 2, 2], [4, 1, 2]])
    result: Tensor = aten.embedding_dense_backward(G, ids, 5, padding, by_count)
    return result


def convolution(transposed: bool) -> Any:
    """A window of 2 that moves by 2 over padded rows, in two groups."""
    x, weight = X.repeat(1, 2, 2)[:, :4], (G[:, :, :2].reshape(4, 1, 3) if transposed else None)
    weight = X.reshape(4, 2, 3) if weight is None else weight
    settings: Any = ([2], [1], [1], transposed, [0], 2)
    made = aten.convolution(x, weight, None, *settings)
    return aten.convolution_backward(made.cos(), x, weight, [4], *settings, [True] * 3), made


GRADIENTS: dict[str, Callable[[], Any]] = {
    "convolution": lambda: convolution(transposed=False),
    "transposed convolution": lambda: convolution(transposed=True),
    "shrinking": lambda: aten.hardshrink_backward(G, X, 0.5) + aten.softshrink_backward(G, X, 0.5),
    "softmax": lambda: aten._softmax_backward_data(G, X.softmax(1), 1, X.dtype),
    "softmax of one number": lambda: aten._softmax_backward_data(
        G[0, 0, 0], torch.tensor(1.0), 0, X.dtype
    ),
    "log_softmax": lambda: aten._log_softmax_backward_data(G, X.log_softmax(-1), -1, X.dtype),
    "log_softmax of one number": lambda: aten._log_softmax_backward_data(
        G[0, 0, 0], torch.tensor(0.0), 0, X.dtype
    ),
    "layer_norm": lambda: layer_norm(X, G, GAIN, BIAS),
    "layer_norm of one row": lambda: layer_norm(X[0, 0], G[0, 0], GAIN, BIAS),
    "layer_norm without parameters": lambda: layer_norm(X, G, None, None),
    "relu": lambda: aten.threshold_backward(G, X, 0),
    "gelu": lambda: aten.gelu_backward(G, X),
    "gelu by tanh": lambda: aten.gelu_backward(G, X, approximate="tanh"),
    "silu": lambda: aten.silu_backward(G, X),
    "tanh and sigmoid": lambda: (
        aten.tanh_backward(G, X.tanh()) + aten.sigmoid_backward(G, X.sigmoid())
    ),
    "the slope of |x|": lambda: X.sgn(),
    "embedding": lambda: embedding(-1, by_count=False),
    "embedding with padding": lambda: embedding(2, by_count=False),
    "embedding by count": lambda: embedding(-1, by_count=True),
    "nll_loss": lambda: (nll_loss(1, None), nll_loss(2, None), nll_loss(0, CLASS_WEIGHTS)),
    "nll_loss with weights": lambda: nll_loss(1, CLASS_WEIGHTS),
    "nll_loss of an image": nll_loss_of_an_image,
}

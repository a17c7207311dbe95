"""One derivative per operator, by family. Importing this package fills the table in `registry`."""

from glassformer.trace.training.derivatives import elementwise, products, rows
from glassformer.trace.training.derivatives.by_autograd import by_autograd, tensor_arguments
from glassformer.trace.training.derivatives.registry import Forward, Gradients, find

__all__ = ["FAMILIES", "Forward", "Gradients", "by_autograd", "find", "tensor_arguments"]

FAMILIES = (elementwise, products, rows)

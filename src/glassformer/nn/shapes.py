"""Shape annotations: checked in our tests, free for everyone else.

`Float[Tensor, "B T D"]` in a signature is documentation first. Under our tests (the variable
GLASSFORMER_CHECK_SHAPES is set before the import) it is jaxtyping's real type, and every call is
checked. Otherwise it is plain `Tensor`, jaxtyping need not be installed, and nothing is paid.
The letters are those of docs/notation.md; "..." is any number of leading axes.
"""

import os
from typing import TYPE_CHECKING, Any

from torch import Tensor

__all__ = ["Bool", "Float", "Int", "Tensor"]

if TYPE_CHECKING or os.environ.get("GLASSFORMER_CHECK_SHAPES"):
    from jaxtyping import Bool, Float, Int
else:

    class _Plain:
        """Stands where jaxtyping's types stand, and annotates nothing but the array type."""

        def __class_getitem__(cls, item: tuple[Any, str]) -> Any:
            return item[0]

    Bool = Float = Int = _Plain

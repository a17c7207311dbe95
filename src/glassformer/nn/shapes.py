"""Shape annotations: checked in our tests, free for everyone else.

`Float[Tensor, "B T D"]` in a signature is documentation first: for users and for type checkers it
is `Annotated[Tensor, "B T D"]`, which means `Tensor`. Under our tests (the variable
GLASSFORMER_CHECK_SHAPES is set before the import) it is jaxtyping's real type, and every call is
checked. The letters are those of docs/notation.md; "..." is any number of leading axes.
"""

import os
from typing import TYPE_CHECKING

from torch import Tensor

__all__ = ["Bool", "Float", "Int", "Tensor"]

if TYPE_CHECKING or not os.environ.get("GLASSFORMER_CHECK_SHAPES"):
    from typing import Annotated as Bool
    from typing import Annotated as Float
    from typing import Annotated as Int
else:
    from jaxtyping import Bool, Float, Int

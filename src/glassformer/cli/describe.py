"""`glassformer describe`: what a preset is made of."""

import json
import sys
from typing import Annotated

from cyclopts import Parameter

__all__ = ["describe"]


def describe(
    preset: str,
    /,
    *,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
    **sizes: float,
) -> None:
    """Show a preset's parts with their parameter counts, without building it.

    Parameters
    ----------
    preset:
        vaswani_2017_base, torch_nn_transformer, bloem_2019, bloem_2024, by_hand_2024,
        illustrated, gpt2, bert or llama.
    as_json:
        Write the complete config as JSON instead.
    sizes:
        Sizes to change, such as --d-model 64 --n-layers 2.
    """
    from glassformer.nn.presets import preset as find

    # Options arrive as floats; a whole one is meant as a whole number.
    given = {
        name.replace("-", "_"): int(value) if value.is_integer() else value
        for name, value in sizes.items()
    }
    config = find(preset, **given)
    text = json.dumps(config.to_dict(), indent=2) if as_json else config.describe()
    sys.stdout.write(text + "\n")

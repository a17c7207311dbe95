"""The argument MODEL and the options that go with it, for the commands that read a text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

if TYPE_CHECKING:
    from glassformer.tasks import Model


@Parameter(name="*")
@dataclass(frozen=True)
class ModelOptions:
    """How a model is opened."""

    ids: bool = False
    module: Annotated[Literal["glassformer"] | None, Parameter(name="--as")] = None


AS_IT_IS = ModelOptions()


def check_model(model: str) -> None:
    """Refuse an unknown name before torch is imported."""
    from glassformer.checkpoint import find

    if not Path(model).is_file():  # a checkpoint of nanoGPT or llama2.c
        find(model)


def open_model(model: str, options: ModelOptions, **more: Any) -> Model:
    """The model that the command names; `more` is passed to `load`."""
    from glassformer.tasks import load

    loaded = load(
        model,
        tokenizer="ids" if options.ids else None,
        as_glassformer=options.module is not None,
        **more,
    )
    if loaded.corpus == "digits":
        from glassformer.data.readers import digit_to_test

        loaded.samples = digit_to_test
    return loaded

"""Options of `glassformer run` that fit some models and not others, in groups of those that do."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from glassformer.decoding import Beam, Sampling
    from glassformer.tasks import Model

__all__ = ["Continuing", "Options", "Recommending", "Translating", "Writing", "refuse"]


class Options:
    """A group: what was given of it, and nothing else, counts."""

    def given(self) -> dict[str, Any]:
        """The options that were given, by name."""
        values = asdict(self)  # type: ignore[call-overload]  # every group is a dataclass
        return {name: value for name, value in values.items() if value is not None}


@Parameter(name="*")
@dataclass(frozen=True)
class Translating(Options):
    """How translations are searched for."""

    beam: int | None = None
    """Translations: continuations followed at once (4); 1 is greedy."""
    n_best: int | None = None
    """Translations: how many to give for each text."""
    length_penalty: float | None = None
    """Translations: above 1 favours longer ones, below 1 shorter ones."""

    def search(self) -> "Beam":
        """The beam that was asked for: wide enough for the n best, unless its size was given."""
        from glassformer.decoding import Beam

        given = self.given()
        size = given.pop("beam", max(4, given.get("n_best", 1)))
        return Beam(size=size, **given)


@Parameter(name="*")
@dataclass(frozen=True)
class Continuing(Options):
    """How continuations are drawn."""

    temperature: float | None = None
    """Continuations: below 1 safer, above 1 wilder (0.8)."""
    top_k: int | None = None
    """Continuations: draw from the k most probable tokens."""
    top_p: float | None = None
    """Continuations: draw from the most probable tokens that together reach p."""
    min_p: float | None = None
    """Continuations: draw from tokens at least p times as probable as the best."""
    repetition_penalty: float | None = None
    """Continuations: above 1 makes repetition less likely."""
    n_samples: int | None = None
    """Continuations: how many to draw."""
    seed: int | None = None
    """Continuations: the same seed gives the same text (0)."""

    def search(self) -> "Sampling":
        """The way of drawing that was asked for."""
        from glassformer.decoding import Sampling

        return Sampling(**({"temperature": 0.8} | self.given()))


@Parameter(name="*")
@dataclass(frozen=True)
class Writing(Options):
    """What all models that write have in common."""

    max_new: int | None = None
    """Most tokens to write (a translation: 50 more than its source; a continuation: 200)."""


@Parameter(name="*")
@dataclass(frozen=True)
class Recommending(Options):
    """How much is recommended."""

    films: Annotated[int | None, Parameter(name="--films")] = None
    """Recommendations: how many films to name (10)."""


def refuse(model: "Model", *groups: Options) -> None:
    """An option of another kind of model is a mistake, not something to ignore."""
    for name in (name for group in groups for name in group.given()):
        raise ConfigError(
            "--{option} does not fit {name}, which can {what}",
            option=name.replace("_", "-"),
            name=model.name,
            what=model.task,
        )

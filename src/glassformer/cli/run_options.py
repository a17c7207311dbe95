"""Options of `glassformer run` that fit some models and not others."""

from dataclasses import asdict, dataclass
from typing import Any

from cyclopts import Parameter


@Parameter(name="*")
@dataclass(frozen=True)
class RunOptions:
    """What answers can be asked to be; `tasks.answers.OPTIONS` says by which models."""

    max_new: int | None = None
    """Most tokens to write (a translation: 50 more than its source; a continuation: 200)."""
    beam: int | None = None
    """Translations: continuations followed at once (4); 1 is greedy."""
    n_best: int | None = None
    """Translations: how many to give for each text."""
    length_penalty: float | None = None
    """Translations: above 1 favours longer ones, below 1 shorter ones."""
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
    films: int | None = None
    """Recommendations: how many films to name (10)."""

    def given(self) -> dict[str, Any]:
        """The options that were given, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

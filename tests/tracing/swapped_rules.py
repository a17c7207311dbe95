"""Wrong rules in the place of right ones, for tests of what finds them."""

from collections.abc import Callable

from glassformer.tracing.arithmetic.rules.rule_registry import _RULES, Build, Rule


def swapped(operator: str, build: Build, output: int = 0) -> Callable[[], None]:
    """Replace an operator's rule; the returned function restores it."""
    key = (operator, output)
    before = _RULES[key]
    _RULES[key] = Rule(operator, build)

    def undo() -> None:
        _RULES[key] = before

    return undo

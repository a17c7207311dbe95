"""Wrong rules in the place of right ones, for tests of what finds them."""

from collections.abc import Callable

from glassformer.tracing.arithmetic.rules.rule_registry import _RULES, Build, Rule, find


def swapped(operator: str, build: Build, output: int = 0) -> Callable[[], None]:
    """Replace an operator's rule; the returned function restores it."""
    key = (operator, output)
    before = _RULES[key]

    def put(rule: Rule) -> None:
        _RULES[key] = rule
        find.cache_clear()

    def undo() -> None:
        put(before)

    put(Rule(operator, build))

    return undo

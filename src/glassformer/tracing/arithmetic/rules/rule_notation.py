"""Rules written as the formula that a reader would write, parsed once.

    formula("self + value·tensor1·tensor2")(call, index)      # the rule of `addcmul`
    formula("exp(x)/Σ(exp(row))").of(x=…, row=…, axes=…)       # with parts that a rule has built

The syntax is Python's, parsed with `ast`: arithmetic, comparisons, `and`, `or`, `not`,
`yes if condition else no`, and the functions of `float64_values.FUNCTIONS`; · − √ ² ³ ≤ ≥ ≠ ∞ may
replace Python's spellings. A name is an argument of the operator: a tensor's cell (broadcast), a
number, a string such as `'tanh'`, or None if it was not given.

- `s = 1/(1 + exp(−x)); x·s` gives a part a symbol of its own (`Named`); σ² is a symbol, too.
- `Σ(…)`, `mean(…)` and `largest(…)` run over the part `axes`.
- Conditions on settings alone (`… if approximate == 'tanh'`) are decided when the expression is
  built, and arithmetic on constants is folded.
- An argument that was not given drops out of sums, products, `max` and `min`.
- `unless(isnan(x), x, …)` shows a rare case only for cells where it applies.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from typing import Any

from glassformer.errors import TraceError
from glassformer.python_source import parse_module
from glassformer.tracing.arithmetic import expressions as e
from glassformer.tracing.arithmetic.float64_values import FUNCTIONS, evaluate
from glassformer.tracing.arithmetic.rules.rule_registry import broadcast
from glassformer.tracing.capture.memory import View
from glassformer.tracing.capture.operator_calls import Call

# A part is an expression, or a setting: a string, a bool, None. It is left untyped because rules
# run once per cell.
_Parts = dict[str, Any]
_Write = Callable[[_Parts], Any]
_NUMBERS = (bool, int, float)
_SETTINGS = frozenset([e.Number, str, type(None)])

_SPELLINGS = str.maketrans(
    {"·": "*", "−": "-", "²": "**2", "³": "**3", "≤": "<=", "≥": ">=", "≠": "!=", "∞": "inf"}
)
_CONSTANTS = {"π": e.Number(math.pi), "inf": e.Number(math.inf)}
_ARITHMETIC: dict[type[ast.AST], tuple[e.OperatorSign, Callable[..., e.Scalar] | None]] = {
    ast.Add: ("+", operator.add), ast.Sub: ("-", operator.sub), ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv), ast.Pow: ("^", operator.pow), ast.FloorDiv: ("//", None),
    ast.Mod: ("%", None), ast.BitAnd: ("&", None), ast.BitOr: ("|", None),
    ast.BitXor: ("xor", None), ast.And: ("and", None), ast.Or: ("or", None),
}  # fmt: skip
_COMPARISONS: dict[type[ast.AST], tuple[e.OperatorSign, Callable[..., bool]]] = {
    ast.Eq: ("=", operator.eq), ast.NotEq: ("≠", operator.ne), ast.Is: ("=", operator.is_),
    ast.IsNot: ("≠", operator.is_not), ast.Lt: ("<", operator.lt), ast.LtE: ("≤", operator.le),
    ast.Gt: (">", operator.gt), ast.GtE: ("≥", operator.ge),
}  # fmt: skip


class RuleFormula:
    """A formula that is a rule: `formula(call, index)` is the expression of one output cell."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._parser: _Parser | None = None

    def __call__(self, call: Call, index: tuple[int | e.Axis, ...]) -> e.Expression:
        """The expression of one cell; names refer to the call's arguments."""
        parser, bound = self._parser or self._parsed(), call.bound
        parts: _Parts = {}
        for name in parser.names:
            value = bound.get(name)
            if type(value) is View:
                parts[name] = broadcast(value, index)
            else:
                parts[name] = e.Number(value) if isinstance(value, _NUMBERS) else value
        made: e.Expression = parser.write(parts)
        return made

    def of(self, **parts: e.Expression | e.Scalar | tuple[e.Axis, ...] | None) -> e.Expression:
        """The expression with these parts for its names; `axes` are those of its sums."""
        parser, lifted = self._parser or self._parsed(), dict[str, Any](parts)
        for name, part in parts.items():
            if isinstance(part, _NUMBERS):
                lifted[name] = e.Number(part)
        made: e.Expression = parser.write(lifted)
        return made

    def _parsed(self) -> _Parser:
        self._parser = _Parser(self.text)
        return self._parser


def formula(text: str) -> RuleFormula:
    """A formula, parsed on first use."""
    return RuleFormula(text)


class _Parser:
    """Compiles a formula into functions that build expressions, one per node of its syntax tree."""

    def __init__(self, text: str) -> None:
        self.names: list[str] = []
        """The arguments it reads."""
        self._lets: dict[str, _Write] = {}
        spelt = re.sub(r"√(\w+)", r"sqrt(\1)", text).replace("√", "sqrt").replace("σ²", "σ2")
        *lets, last = parse_module(spelt.translate(_SPELLINGS)).body
        for let in lets:
            assert isinstance(let, ast.Assign) and isinstance(let.targets[0], ast.Name), text
            symbol = let.targets[0].id
            self._lets[symbol] = _let(symbol.replace("σ2", "σ²"), self._read(let.value))
        assert isinstance(last, ast.Expr), text
        self.write = self._read(last.value)

    def _read(self, node: ast.expr) -> _Write:
        match node:
            case ast.Name(id=name):
                return self._name(name)
            case ast.Constant(value=str() | None as value):
                return lambda _: value
            case ast.Constant(value=bool() | int() | float() as value):
                number = e.Number(value)
                return lambda _: number
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _ARITHMETIC:
                return _arithmetic(sign, self._read(left), self._read(right))
            case ast.BoolOp(op=sign, values=[left, right]):
                return _arithmetic(sign, self._read(left), self._read(right))
            case ast.Compare(left=left, ops=[sign], comparators=[right]) if (
                type(sign) in _COMPARISONS
            ):
                return _comparison(sign, self._read(left), self._read(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return _minus(self._read(operand))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return _function("not", [self._read(operand)])
            case ast.IfExp(test=test, body=yes, orelse=no):
                return _choice(self._read(test), self._read(yes), self._read(no))
            case ast.Call(func=ast.Name(id="unless"), args=[condition, yes, no]):
                return _unless(self._read(condition), self._read(yes), self._read(no))
            case ast.Call(func=ast.Name(id="Σ" | "mean" | "largest" as name), args=[body]):
                return _over_axes(name, self._read(body))
            case ast.Call(func=ast.Name(id=name), args=arguments) if name in FUNCTIONS:
                return _function(name, [self._read(argument) for argument in arguments])
            case ast.Call(func=ast.Name(id=name)):
                raise TraceError(
                    "a formula has no function {name!r}: add it to FUNCTIONS "
                    "(arithmetic/float64_values.py)",
                    name=name,
                )
        raise TraceError(
            "a formula has no {part!r}: write this rule as a function (rules/sums.py has some)",
            part=ast.unparse(node),
        )

    def _name(self, name: str) -> _Write:
        if name in _CONSTANTS:
            constant = _CONSTANTS[name]
            return lambda _: constant
        if name in self._lets:
            return self._lets[name]
        if name not in self.names:
            self.names.append(name)
        return operator.itemgetter(name)


def _let(symbol: str, body: _Write) -> _Write:
    def write(parts: _Parts) -> Any:
        if symbol not in parts:
            part = body(parts)
            # A cell or a number needs no symbol.
            parts[symbol] = part if type(part) in (e.Entry, e.Number) else e.Named(symbol, part)
        return parts[symbol]

    return write


def _arithmetic(node: ast.AST, first: _Write, second: _Write) -> _Write:
    sign, on_numbers = _ARITHMETIC[type(node)]

    def write(parts: _Parts) -> Any:
        left, right = first(parts), second(parts)
        if left is None or right is None:
            return right if left is None else left
        if type(left) is e.Number:
            if type(right) is e.Number and on_numbers is not None:
                return e.Number(on_numbers(left.value, right.value))
            if sign == "*" and left.value == 1:
                return right
        return e.Operation(sign, left, right)

    return write


def _comparison(node: ast.AST, first: _Write, second: _Write) -> _Write:
    sign, on_settings = _COMPARISONS[type(node)]

    def write(parts: _Parts) -> Any:
        left, right = first(parts), second(parts)
        is_settled = type(left) in _SETTINGS and type(right) in _SETTINGS
        if is_settled or left is None or right is None:
            return on_settings(getattr(left, "value", left), getattr(right, "value", right))
        return e.Operation(sign, left, right)

    return write


def _minus(body: _Write) -> _Write:
    def write(parts: _Parts) -> Any:
        part = body(parts)
        return e.Number(-part.value) if type(part) is e.Number else e.Function("neg", (part,))

    return write


def _function(name: str, bodies: list[_Write]) -> _Write:
    def write(parts: _Parts) -> Any:
        arguments = tuple([body(parts) for body in bodies])
        for argument in arguments:
            if argument is None:  # a bound of `max` or `min` that was not given
                return next(other for other in arguments if other is not None)
        return e.Function(name, arguments)

    return write


def _over_axes(kind: str, body: _Write) -> _Write:
    def write(parts: _Parts) -> Any:
        part, axes = body(parts), parts["axes"]
        if kind == "largest":
            return e.Reduce("max", part, axes) if axes else part
        total = e.total(part, *axes)
        return total / math.prod(axis.size for axis in axes) if kind == "mean" else total

    return write


def _choice(test: _Write, yes: _Write, no: _Write) -> _Write:
    def write(parts: _Parts) -> Any:
        condition = test(parts)
        if type(condition) is bool:
            return (yes if condition else no)(parts)
        return e.Choose(condition, yes(parts), no(parts))

    return write


def _unless(test: _Write, yes: _Write, no: _Write) -> _Write:
    written = _choice(test, yes, no)

    def write(parts: _Parts) -> Any:
        return written(parts) if evaluate(test(parts)) else no(parts)

    return write

"""One executed operator: what was called, on which views, and what it returned.

Rules read the arguments through the typed accessors here, by the names in the operator's schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import torch

from glassformer.tracing.arithmetic.expressions import Scalar
from glassformer.tracing.capture.memory import Version, View

if TYPE_CHECKING:
    from glassformer.tracing.capture.source_lines import Origin
    from glassformer.tracing.steps import Step


@dataclass(frozen=True, eq=False)
class Operator:
    """What the recorder needs to know about an operator, read once from its schema."""

    func: torch._ops.OpOverload
    name: str
    """Its plain name without the in-place underscore: `add` for `aten::add_.Tensor`."""
    full_name: str
    """Name and overload: `max.dim`."""
    written: tuple[tuple[int, str], ...]
    """The arguments it writes to, by position and name."""
    parameters: tuple[str, ...]
    defaults: dict[str, Any]
    random: bool

    def run(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Run it. Lazily conjugated or negated views become copies, since cells must be stored.

        So do the zero tensors without memory that torch's derivatives use.
        """
        if self.name == "_efficientzerotensor":
            return torch.zeros(*args, **kwargs)
        result = self.func(*args, **kwargs)
        return result.resolve_conj().resolve_neg() if self.name in _LAZY else result

    def writes_to(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[tuple[int, str], ...]:
        """The arguments that a call of it writes to.

        Batch norm in training updates its running statistics, which its schema does not say.
        """
        if self.name not in _BATCH_NORMS:
            return self.written
        given = {**dict(zip(self.parameters, args, strict=False)), **kwargs}
        if not given["training"] or given["running_mean"] is None:
            return ()
        return _RUNNING


_LAZY = frozenset(["_conj", "_neg_view"])
_BATCH_NORMS = frozenset(["batch_norm", "native_batch_norm"])
_RUNNING = ((3, "running_mean"), (4, "running_var"))

READ = Operator(
    func=cast(torch._ops.OpOverload, torch._C.TensorBase.tolist),
    name="tolist",
    full_name="tolist",
    written=(),
    parameters=("self",),
    defaults={},
    random=False,
)
"""A tensor's numbers as Python sees them: no operator of torch's, but what `tolist()` returns."""

_OPERATORS: dict[int, Operator] = {}  # by identity: each keeps its function alive


def operator_of(func: torch._ops.OpOverload) -> Operator:
    known = _OPERATORS.get(id(func))
    if known is None:
        known = _OPERATORS[id(func)] = _read_schema(func)
    return known


def _read_schema(func: torch._ops.OpOverload) -> Operator:
    schema = func._schema
    name = schema.name.rpartition("::")[2]
    written = tuple(
        (position, argument.name)
        for position, argument in enumerate(schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    )
    plain = name[:-1] if written and name.endswith("_") and not name.endswith("__") else name
    return Operator(
        func=func,
        name=plain,
        full_name=f"{plain}.{func._overloadname}",
        written=written,
        parameters=tuple(argument.name for argument in schema.arguments),
        defaults={a.name: a.default_value for a in schema.arguments if a.has_default_value()},
        random=torch.Tag.nondeterministic_seeded in func.tags,
    )


@dataclass(eq=False)
class Call:
    """One executed operator. Its tensor arguments are views of recorded versions."""

    number: int
    operator: Operator
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    origin: Origin
    outputs: tuple[View | None, ...] = ()
    """The tensors it returned (None for those that only alias an argument), then those it wrote to
    without returning them."""
    writes: tuple[tuple[Version, Version], ...] = ()
    """The versions it overwrote, each with its successor."""
    result: Scalar | list[Any] | None = None
    """The Python numbers it returned (`item()`, `if tensor:`, `tolist()`), for a guard."""
    expanded: bool = False
    """Whether it is part of a fused operator that the trace expanded."""
    without_onednn: bool = False
    """Whether it ran with oneDNN kernels off: inside the decomposition of a larger operator."""
    unreturned: tuple[str, ...] = ()
    """The names of the arguments that it wrote to without returning them: its last outputs."""
    steps: tuple[Step, ...] = ()
    remembered: tuple[object, object] | None = field(default=None, init=False, repr=False)
    """A function, and what it computed for the whole call (`rules.shapes_and_moves.remembered`).

    It refers to the operands of this very call, so `dataclasses.replace` leaves it out.
    """

    @cached_property
    def bound(self) -> dict[str, Any]:
        """The arguments by name, including defaults."""
        given = dict(zip(self.operator.parameters, self.args, strict=False))
        return {**self.operator.defaults, **given, **self.kwargs}

    def add_unreturned(self) -> None:
        """Add the tensors that it wrote to without returning them to the outputs."""
        newest = {id(old): new for old, new in self.writes}
        returned = {id(view.version) for view in self.outputs if view is not None}
        if not returned:
            self.outputs = ()
        for name, view in self._written():
            new = newest.get(id(view.version))
            if new is not None and id(new) not in returned:
                self.outputs += (view.on(new),)
                self.unreturned += (name,)

    def written(self) -> list[View]:
        """The arguments that it wrote to, as they were before."""
        return [view for _, view in self._written()]

    def _written(self) -> Iterator[tuple[str, View]]:
        for _, name in self.operator.writes_to(self.args, self.kwargs):
            target = self.bound[name]
            for view in target if isinstance(target, list) else [target]:
                if isinstance(view, View):
                    yield name, view

    def made(self, output: int = 0) -> View:
        """One of the tensors it returned."""
        made = self.outputs[output]
        assert made is not None, f"{self.operator.name}: output {output} is not a tensor of its own"
        return made

    def view(self, name: str) -> View:
        value = self.bound[name]
        assert isinstance(value, View), f"{self.operator.name}: {name} is not a tensor"
        return value

    def maybe_view(self, name: str) -> View | None:
        value = self.bound.get(name)
        return value if isinstance(value, View) else None

    def views(self, name: str) -> list[View]:
        return list(self.bound[name])

    def operand(self, name: str) -> View | Scalar:
        value: View | Scalar = self.bound[name]
        return value

    def number_of(self, name: str) -> Scalar:
        value: Scalar = self.bound[name]
        return value

    def integer(self, name: str) -> int:
        return int(self.bound[name])

    def flag(self, name: str) -> bool:
        return bool(self.bound.get(name))

    def axis(self, name: str, ndim: int) -> int:
        axis = int(self.bound[name])
        return axis + ndim if axis < 0 else axis

    def axes(self, name: str, ndim: int) -> tuple[int, ...]:
        """Axes, counted from the front; all of them if none were given."""
        value = self.bound.get(name)
        if ndim == 0:  # torch accepts axis 0 of a tensor without axes
            return ()
        if value is None or (not isinstance(value, int) and len(value) == 0):
            return tuple(range(ndim))
        given = [value] if isinstance(value, int) else value
        return tuple(sorted(axis + ndim if axis < 0 else axis for axis in given))

    @cached_property
    def is_complex(self) -> bool:
        """Whether an input or output is complex."""
        return any(view is not None and view.pairs for view in (*self.inputs(), *self.outputs))

    def mapped(self, change: Callable[[str, View], Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with `change(name, view)` for each tensor; in a list, `tensors.0`, …."""
        named = zip(self.operator.parameters, self.args, strict=False)
        args = tuple([_changed(name, value, change) for name, value in named])
        return args, {name: _changed(name, value, change) for name, value in self.kwargs.items()}

    def tensors(self) -> dict[str, View]:
        """The tensor arguments by name, as in `mapped`."""
        found: dict[str, View] = {}
        self.mapped(found.setdefault)
        return found

    def again(self, tensor: Callable[[str, View], torch.Tensor]) -> list[torch.Tensor | None]:
        """Run the operator once more, with `tensor(name, view)` for each tensor argument."""
        return as_list(self.operator.run(*self.mapped(tensor)))

    def inputs(self) -> list[View]:
        """Every tensor among the arguments, those in lists too."""
        return [*_views_in(self.args), *_views_in(self.kwargs.values())]


def as_list(result: Any) -> list[Any]:
    """An operator's results; most operators have only one."""
    return list(result) if isinstance(result, list | tuple) else [result]


def _changed(name: str, value: Any, change: Callable[[str, View], Any]) -> Any:
    # Not nested in `mapped`: a recursive closure is a cycle and would keep `change` alive.
    if isinstance(value, View):
        return change(name, value)
    if isinstance(value, list | tuple):
        parts = enumerate(value)
        return type(value)([_changed(f"{name}.{n}", part, change) for n, part in parts])
    return value


def _views_in(values: Iterable[Any]) -> Iterator[View]:
    for value in values:
        if isinstance(value, View):
            yield value
        elif isinstance(value, list | tuple):
            yield from _views_in(value)


# --- families ---
# Operators by what they do, for all who recognise the parts of a model by its structure.

COPIES = frozenset(
    ["clone", "contiguous", "to", "_to_copy", "type_as", "copy", "reshape", "flatten", "expand"]
)
PRODUCTS = frozenset(["matmul", "bmm", "baddbmm", "mm", "einsum"])
"""Products of two activations, or of an activation and a parameter."""
LINEAR_MAPS = frozenset(["linear", "addmm", "mm", "matmul", "bmm"])
MATRICES = PRODUCTS | LINEAR_MAPS | {"convolution", "conv1d", "conv2d", "grouped_mm", "_grouped_mm"}
SOFTMAXES = frozenset(["softmax", "_softmax", "_safe_softmax"])
NORMS = frozenset(["layer_norm", "native_layer_norm", "rms_norm", "_fused_rms_norm"])
ACTIVATIONS = frozenset(["relu", "gelu", "silu", "tanh", "sigmoid"])

"""A trace: the steps of one run, by name, and all queries on them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Self

from glassformer.errors import TraceError, UnknownNameError
from glassformer.tracing.arithmetic import rules
from glassformer.tracing.capture.memory import View
from glassformer.tracing.capture.module_stack import UniqueNames, join, name_calls
from glassformer.tracing.capture.operator_calls import Operator
from glassformer.tracing.capture.recorder import Recording
from glassformer.tracing.capture.source_lines import Line, Origin
from glassformer.tracing.cells import Cell
from glassformer.tracing.formula.naming import Names
from glassformer.tracing.notes import notebook_markdown
from glassformer.tracing.stages import Stages, find_stages
from glassformer.tracing.step_graph import fixed_steps, writer_of
from glassformer.tracing.steps import AxisLabels, Role, Step, check_labels, find_labels

if TYPE_CHECKING:
    from glassformer.tracing.verification import Report


@dataclass(slots=True)
class Branch:
    """A module in the tree, with its own steps and the modules inside it."""

    name: str
    path: str
    steps: list[Step] = field(default_factory=list)
    branches: list[Branch] = field(default_factory=list)

    @property
    def first(self) -> int:
        """The number of its first step."""
        return min([s.number for s in self.steps] + [b.first for b in self.branches], default=0)

    @property
    def parts(self) -> list[Step | Branch]:
        """Steps and modules, in the order of the run."""
        return sorted(
            [*self.steps, *self.branches],
            key=lambda part: part.number if isinstance(part, Step) else part.first,
        )

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for part in self.parts:
            if isinstance(part, Step):
                shape = "×".join(map(str, part.shape))
                yield "  ".join((self.inner_name(part), shape, part.op))
            else:
                yield part.name
                yield from (f"    {line}" for line in part._lines())

    def inner_name(self, step: Step) -> str:
        """The name of one of its steps, as seen from inside the module."""
        return step.name.removeprefix(f"{self.path}." if self.path else "")


class Trace:
    """The steps of one run. `trace[name]` is a step, `trace[name][i, j]` a cell."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.steps: list[Step] = []
        """The results of operators, in order."""
        self.views: list[Step] = []
        """Views of steps that are assigned to a variable in the source."""
        self.parameters: dict[str, Step] = {}
        self.inputs: dict[str, Step] = {}
        self.constants: dict[str, Step] = {}
        self.outputs: dict[str, Step] = {}
        self._names = UniqueNames()
        self._by_name: dict[str, Step] = {}
        self._closed = False
        self._add_sources()
        self._add_steps()
        self._add_found()
        self._add_views()
        self._add_outputs()
        for number, step in enumerate(dict.fromkeys(self._by_name.values())):
            step.number = number
        check_labels(self)

    # --- queries ---

    @property
    def notes(self) -> list[str]:
        """What to know about how this trace was made."""
        return self.recording.notes

    @property
    def names(self) -> list[str]:
        """Every name that `trace[name]` accepts."""
        return list(self._by_name)

    @property
    def stages(self) -> dict[str, Step]:
        """Steps by their role in any Transformer: `layers.1.resid_mid`, `….queries`.

        Found from the structure of the model; `trace[name]` accepts these names, too.
        """
        self.check_open()
        return self.found_stages.by_name

    @cached_property
    def found_stages(self) -> Stages:
        """All stages, found on first use."""
        found = find_stages(self.inputs.values(), self.steps, self._by_name)
        others = len({id(step) for step in self._by_name.values()})
        for number, step in enumerate(found.turned, start=others):
            step.number = number
        return found

    @cached_property
    def naming(self) -> Names:
        """The names and symbols used in formulas."""
        return Names(self)

    def __contains__(self, name: str | Step) -> bool:
        if isinstance(name, Step):
            return name.trace is self
        return name in self._by_name or name in self.found_stages.by_name

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, name: str) -> Step:
        if isinstance(name, str) and name in self._by_name:
            return self._by_name[name]
        self.check_open()
        if not isinstance(name, str):
            raise TraceError(
                "a step is asked for by its name, got {name!r}; by its place it is t.steps[0]",
                name=name,
            )
        if name in self.stages:
            return self.stages[name]
        if (found := _ADDRESS.fullmatch(name)) and found["index"] and found["name"] in self:
            raise TraceError(
                "{address!r} is a cell, and a trace gives steps: write t[{step!r}][{index}]",
                address=name,
                step=found["name"],
                index=", ".join(map(_as_written, _parts(found["index"]))),
            )
        raise UnknownNameError("step", name, {*self._by_name, *self.stages})

    def _ipython_key_completions_(self) -> list[str]:
        """What Tab offers after `t["` in IPython and Jupyter."""
        return self.names

    def __repr__(self) -> str:
        n_steps, n_parameters = len(self.steps), len(self.parameters)
        steps = "1 step" if n_steps == 1 else f"{n_steps} steps"
        parameters = "1 parameter" if n_parameters == 1 else f"{n_parameters} parameters"
        return f"<trace of {steps}, {parameters}>"

    def _repr_markdown_(self) -> str:
        """In a notebook: its notes and a table of its steps."""
        return notebook_markdown(self)

    def tree(self, steps: Iterable[Step] | None = None) -> Branch:
        """The steps, or these of them, grouped by module."""
        root = Branch("", "")
        known = {"": root}
        for step in self.steps if steps is None else steps:
            path = ""
            for name in step.module.split(".") if step.module else []:
                outer, path = known[path], join(path, name)
                if path not in known:
                    known[path] = Branch(name, path)
                    outer.branches.append(known[path])
            known[path].steps.append(step)
        return root

    @cached_property
    def found_labels(self) -> dict[int, AxisLabels]:
        """The labels of each step's axes, by its identity; found on first use."""
        found: dict[int, AxisLabels] = {}
        for step in dict.fromkeys(self._by_name.values()):  # operands come first
            found[id(step)] = find_labels(self, step, found)
        return found

    def is_fixed(self, step: Step) -> bool:
        """Whether a step depends on no parameter and no input: positions, causal masks."""
        return id(step) in self._fixed

    @cached_property
    def _fixed(self) -> set[int]:
        return fixed_steps((*self.constants.values(), *self.steps))

    @cached_property
    def counted(self) -> set[int]:
        """The steps, by identity, that depend on ids alone: masks and counts of positions."""
        ids = (one for one in self.inputs.values() if not one.dtype.is_floating_point)
        return fixed_steps((*self.constants.values(), *self.steps), ids)

    def check_open(self) -> None:
        """Refuse to answer from a closed trace, which has no numbers that could be asked about."""
        if self._closed:
            raise TraceError("this trace was closed and has no steps any more: trace the run again")

    def verify(self, sample: int | None = None, seed: int = 0) -> Report:
        """Recompute all cells, or `sample` of them, in float64 from the operands shown."""
        from glassformer.tracing.verification import verify

        return verify(self, sample, seed)

    def edit(self, edits: Mapping[Any, Any]) -> Trace:
        """A new trace with other values in these cells and everything downstream recomputed.

        A key is a cell, a part `t[name][0, :, 2]`, the name of a step (all of it), or
        `(name, index)`, where a short index selects the remaining axes whole. A value is a number,
        a tensor that fits or broadcasts, or a function of the current numbers:
        `t.edit({"weights": {(0, 1): lambda head: head.flip(-1)}})`.
        """
        from glassformer.tracing.replay import edit

        self.check_open()
        return edit(self, edits)

    def close(self) -> None:
        """Free the trace's memory as soon as no step of it is referenced.

        A trace and its steps refer to each other; without this, they wait for Python's garbage
        collector. A closed trace has no steps. Traces made from it by `edit` are not affected.
        """
        for step in self._by_name.values():
            step.view.version.owners.clear()
        for call in self.recording.calls:
            call.steps = ()
        for table in (self._by_name, self.parameters, self.inputs, self.constants, self.outputs):
            table.clear()
        for steps in (self.steps, self.views):
            steps.clear()
        if "naming" in vars(self):
            self.naming.forget()
        for found in ("naming", "found_stages", "found_labels", "_fixed", "counted"):
            vars(self).pop(found, None)
        self.recording = self.recording.emptied()
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- building ---

    def _new(self, wanted: str, view: View, role: Role, **details: Any) -> Step:
        """A step under the wanted name, or a repeat of it; an output's name is kept for it."""
        returned = self.recording.outputs.get(wanted)
        is_output = returned is not None and _is_same(returned, view)
        step = Step(self, self._names.take(wanted, kept=is_output), view, role, **details)
        self._by_name[step.name] = step
        return step

    def _add_sources(self) -> None:
        tables = {
            "parameter": self.parameters, "input": self.inputs, "constant": self.constants
        }  # fmt: skip
        for source in self.recording.sources:
            step = self._showing(source.view)
            if step is None:
                module = source.name.rpartition(".")[0]
                step = self._new(source.name, source.view, source.role, module=module)
                source.view.version.owners.append(step)
                name = step.name
            else:  # tied: another name of the same cells
                name = self._names.take(source.name)
                self._by_name[name] = step
            tables[source.role][name] = step

    def _add_found(self) -> None:
        """Name the constants: `scale = torch.tensor(2.0)` by its variable."""
        for found in self.recording.found:
            origin = found.origin
            assigned = origin.line is not None and origin.line.kind == "assigned"
            named = found.literal and assigned and len(origin.targets) == 1
            wanted = join(origin.owner, (origin.targets[0] if named else None) or "constant")
            step = self._new(wanted, found.view, "constant", module=origin.owner, line=origin.line)
            found.view.version.owners.insert(0, step)  # an input that shows the same cells is first
            self.constants[step.name] = step

    def _add_steps(self) -> None:
        made = [call for call in self.recording.calls if call.outputs]
        # `logits` is what the model returns, not what it first assigned to a variable of that name.
        self._names.keep(self.recording.outputs)
        for call, (wanted, module) in zip(made, name_calls(made), strict=True):
            # A call without tensors among its arguments makes constants, too.
            role: Role = "activation"
            if _is_constant(call.operator) or not call.inputs():
                role = "constant"
            steps = []
            for output, view in enumerate(call.outputs):
                if view is None:
                    continue
                step = self._new(
                    wanted[output], view, role, module=module, call=call, output=output,
                    line=call.origin.line,
                    pinned=self.recording.pins.get((call.number, output), frozenset()),
                )  # fmt: skip
                view.version.owners.append(step)
                steps.append(step)
            call.steps = tuple(steps)
            self.steps.extend(steps)

    def _add_views(self) -> None:
        """Name the views that a source line assigns; in a chain of views, the last one."""
        chosen: dict[tuple[object, ...], tuple[str, View, Origin]] = {}
        for call in self.recording.views:
            origin = call.origin
            written = origin.line is not None and origin.line.kind == "written"
            if len(origin.targets) != len(call.outputs) or origin.forced or written:
                continue
            for view, target in zip(call.outputs, origin.targets, strict=True):
                if target is None or view is None or view.numel == 0:
                    continue
                key = (id(writer_of(view)), origin.owner, target, origin.line)
                chosen[key] = (join(origin.owner, target), view, origin)
        for wanted, view, origin in chosen.values():
            self._add_view(wanted, view, origin.owner, origin.line)

    def _add_view(self, wanted: str, view: View, module: str, line: Line | None) -> Step:
        role = writer_of(view).role
        step = self._new(wanted, view, role, module=module, line=line, is_view=True)
        self.views.append(step)
        return step

    def _add_outputs(self) -> None:
        for name, view in self.recording.outputs.items():
            step = self._showing(view)
            if step is None:
                owner = writer_of(view)
                step = self._add_view(name, view, owner.module, owner.line)
            self._by_name.setdefault(name, step)
            self.outputs[name] = step

    def _showing(self, view: View) -> Step | None:
        """The step with exactly this view, if there is one."""
        steps = (*reversed(view.version.owners), *self.views)
        return next((step for step in steps if _is_same(step.view, view)), None)


@cache
def _is_constant(operator: Operator) -> bool:
    """Whether an operator's numbers are given or have a rule without operands."""
    rule = rules.find(operator)
    return rules.is_given(operator) or (rule is not None and rule.constant)


def _is_same(one: View, other: View) -> bool:
    return one.version is other.version and one.window == other.window


# --- addresses ---
# A cell as a person types it: `encoder.blocks.0.attention.scores[0,1,2]`.


_ADDRESS = re.compile(r"(?P<name>[^\[\]]+?)\s*(?:\[(?P<index>[^\[\]]*)\])?")


def find_cell(trace: Trace, address: str) -> Cell:
    """The cell at `step[i, j]`; a step with a single number needs no index.

    In the place of a number, the label of a position: `logits[-1, ␣cat]`, `logits[happy]`.
    """
    found = _ADDRESS.fullmatch(address.strip())
    if found is None:
        raise TraceError(
            "a cell is written as step[i, j], such as logits[0, 1]; got {address!r}",
            address=address,
        )
    step = trace[found["name"].strip()]
    parts = _parts(found["index"] or "")
    try:
        index = tuple(
            _position(step, axis, part) for axis, part in enumerate(parts, start=-len(parts))
        )
    except ValueError:
        raise TraceError(
            "the indices of a cell are whole numbers, got [{found}]; {name} has shape {shape}",
            found=found["index"],
            name=step.name,
            shape=tuple(step.shape),
        ) from None
    return step[index]


def _parts(index: str) -> list[str]:
    return [part.strip() for part in index.split(",") if part.strip()]


def _as_written(part: str) -> str:
    """A part of an index in Python: a label in quotes, a number or a slice as it is."""
    return part if re.fullmatch(r"[-+:.\d\s]+", part) else repr(part)


def _position(step: Step, axis: int, part: str) -> int:
    """A position by its number, or by the first label that is spelled so."""
    labels = step.labels[axis] if -axis <= len(step.shape) else None
    number = part.removeprefix("-")
    if labels is not None and not number.isdecimal():
        if part not in labels:
            raise UnknownNameError("label", part, labels)
        return labels.index(part)
    return int(part)

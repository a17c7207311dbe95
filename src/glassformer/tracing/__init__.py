"""Trace any number of any model back to the arithmetic that made it.

    from glassformer.tracing import trace
    t = trace(model, ids, axis_labels={"ids": ["I", "am"]})  # any module or function
    t.steps, t.parameters, t.inputs, t.constants, t.outputs, t.views, t.names, t.notes
    estimate(model, ids); trace(model, ids, only=["layers.3"])   # large models
    t.tree()                                             # Branch(name, path, steps, branches)
    step = t["blocks.0.attention.scores"]                # name, op, rule, role, module, shape,
                                                         # dtype, value, labels, line, operands
    cell = step[0, 1, 2]                                 # value, role, formula, numbers, operands,
                                                         # terms, definitions, expression, source
    print(cell.explain(depth=2)); cell.to_dict()
    cell.dependents(), cell.path(), cell.at_precisions(decimals=2)
    t.verify(sample=20_000).ok                           # recomputed in float64 from what is shown
    u = t.edit({cell: 0.5, ("embedding.weight", (3, 1)): 0.0})
    print(diff(t, u))
    t.close()                                            # free its memory at once
    with cancelled_by(event.is_set): …                   # stop a trace from another thread
    s = trace_training_step(model, ids, loss=…, optimiser=…)   # forward, backward, update
    print(why_moved(s, "to_classes.weight", (0, 3)))

In reading order:

    capture/      memory (storages, versions, views), operator_calls, recorder (the dispatch mode),
                  decompositions and fused_layers (what is run in smaller parts), source_lines and
                  module_stack (what a step is called), dropped_numbers (computed again on
                  request), record (`trace` itself)
    arithmetic/   expressions (the arithmetic of a cell), rules/ (one per operator), float64_values
    formula/      names, symbols, and how an expression is written
    steps, cells, cell_block, trace         what a user holds
    verification, replay, influence, stages, explanation                what is asked of them
    gradients/    a whole training step: forward, backward, update

`formula/naming` alone knows anything about particular models: the names of their parameters.
"""

# `Cell.explain` imports `explanation`; importing it here keeps the first call fast.
from glassformer.errors import cancelled_by
from glassformer.tracing import explanation as _explanation  # noqa: F401
from glassformer.tracing.arithmetic.float64_values import Precisions
from glassformer.tracing.capture.record import MemoryEstimate, estimate, trace
from glassformer.tracing.capture.source_lines import Line
from glassformer.tracing.cells import Cell, Term
from glassformer.tracing.gradients import Move, trace_training_step, why_moved
from glassformer.tracing.influence import Dependent, Difference, StepDifference, diff
from glassformer.tracing.replay import replay
from glassformer.tracing.steps import Operand, Role, Step
from glassformer.tracing.trace import Branch, Trace
from glassformer.tracing.verification import Report, RuleReport

__all__ = [
    "Branch",
    "Cell",
    "Dependent",
    "Difference",
    "Line",
    "MemoryEstimate",
    "Move",
    "Operand",
    "Precisions",
    "Report",
    "Role",
    "RuleReport",
    "Step",
    "StepDifference",
    "Term",
    "Trace",
    "cancelled_by",
    "diff",
    "estimate",
    "replay",
    "trace",
    "trace_training_step",
    "why_moved",
]

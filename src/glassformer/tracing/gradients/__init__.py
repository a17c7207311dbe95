"""One training step, every number of it: forward, backward, and why each weight moved.

    from glassformer.tracing.gradients import trace_training_step, why_moved
    t = trace_training_step(model, ids, loss=…, optimiser=torch.optim.AdamW(model.parameters()))
    t["loss"], t["gradients.blocks.0.attention.scores"], t["update.to_classes.weight.weight"]
    print(why_moved(t, "to_classes.weight", (0, 3)))

The files, in reading order: `step` (the whole), `backward` with `derivatives`, `optimisers`,
`scribe` (names), `agreement` (the check against autograd and torch.optim), `moved`.
"""

from glassformer.tracing.gradients.traced_step import Move, trace_training_step, why_moved

__all__ = ["Move", "trace_training_step", "why_moved"]

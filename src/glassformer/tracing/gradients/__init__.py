"""Every number of one training step: forward, backward, and why each weight changed.

    from glassformer.tracing.gradients import trace_training_step, why_moved
    t = trace_training_step(model, ids, loss=…, optimiser=torch.optim.AdamW(model.parameters()))
    t["loss"], t["gradients.blocks.0.attention.scores"], t["update.to_classes.weight.weight"]
    print(why_moved(t, "to_classes.weight", (0, 3)))

In reading order: `traced_step` (the whole, checked against autograd and torch.optim), `backward`
with `derivatives`, `optimisers`.
"""

from glassformer.tracing.gradients.traced_step import Move, trace_training_step, why_moved

__all__ = ["Move", "trace_training_step", "why_moved"]

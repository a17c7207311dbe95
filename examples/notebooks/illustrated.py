# %% [markdown]
# # Self-attention with three inputs
#
# Three vectors of four numbers go in, three vectors of three come out. Every step is a line of
# PyTorch; at the end the same numbers come out of the module that trains real models here, and each
# can be traced back to what made it. Run the cells from top to bottom.

# %%
import torch

x = torch.tensor([[1.0, 0.0, 1.0, 0.0], [0.0, 2.0, 0.0, 2.0], [1.0, 1.0, 1.0, 1.0]])
w_key = torch.tensor([[0.0, 0.0, 1.0], [1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
w_query = torch.tensor([[1.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
w_value = torch.tensor([[0.0, 2.0, 0.0], [0.0, 3.0, 0.0], [1.0, 0.0, 3.0], [1.0, 1.0, 0.0]])

# %% [markdown]
# ## Keys, queries, values
#
# Three matrix products give each input a key, a query and a value.

# %%
keys, queries, values = x @ w_key, x @ w_query, x @ w_value
keys

# %% [markdown]
# ## Scores
#
# The query of each input times the key of each input: row *i* belongs to query *i*, column *j* to
# key *j*.

# %%
scores = queries @ keys.T
scores

# %% [markdown]
# ## Weights
#
# A softmax along each row: positive weights that add up to one. (Texts often round them to one
# decimal to continue by hand; that is a choice, and the outputs change with it.)

# %%
weights = torch.softmax(scores, dim=-1)
weights

# %% [markdown]
# ## Weighted values and their sums
#
# First all summands, as a 3 × 3 × 3 tensor: input, output, entry. Their sum over the inputs is the
# output, and one matrix product computes it at once.

# %%
weighted = values[:, None] * weights.T[:, :, None]
outputs = weighted.sum(dim=0)
assert torch.allclose(outputs, weights @ values)
outputs

# %% [markdown]
# ## The same in the module that trains
#
# `MultiHeadAttention` with one head, no scaling and no output map computes exactly this.

# %%
from glassformer import build
from glassformer.nn import MultiHeadAttention, presets
from glassformer.tracing import trace

attention = build(presets.illustrated(), attention="written").eval()
assert isinstance(attention, MultiHeadAttention)
with torch.no_grad():
    attention.to_keys.weight.copy_(w_key.T)
    attention.to_queries.weight.copy_(w_query.T)
    attention.to_values.weight.copy_(w_value.T)
run = trace(attention, x[None], axis_labels={"x": ["input 1", "input 2", "input 3"]})
assert torch.allclose(run["context"].value[0, 0], outputs)

# %% [markdown]
# ## Where does a number come from?

# %%
print(run["context"][0, 0, 0, 1].explain(depth=2))

# %% [markdown]
# ## What if it were different?
#
# Change a number, and everything that depends on it is recomputed.

# %%
edited = run.edit({("weights", (0, 0, 0, 0)): 0.0, ("weights", (0, 0, 0, 1)): 0.5})
edited["context"].value[0, 0]

# %% [markdown]
# ## As pictures
#
# The figures are drawn from the recorded numbers.

# %%
from glassformer.lessons.figures.attention_figures import scores_figure, softmax_figure

scores_figure(run, "en")

# %%
softmax_figure(run, "en")

# %% [markdown]
# # A Transformer from scratch
#
# From a weighted average to a classifier, each idea in a few lines of runnable code.

# %% [markdown]
# ## Basic self-attention
#
# Every output is a weighted average of all inputs; the weights come from dot products. Nothing is
# learned.

# %%
import torch

x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
scores = x @ x.T
weights = torch.softmax(scores, dim=-1)
y = weights @ x
y

# %% [markdown]
# The order of the inputs does not matter: permuted inputs give permuted outputs.

# %%
from glassformer.nn.attention import basic_self_attention

order = torch.tensor([3, 0, 4, 1, 2])
assert torch.allclose(basic_self_attention(x)[order], basic_self_attention(x[order]), atol=1e-6)

# %% [markdown]
# ## Why divide by √k
#
# Dot products of longer vectors are larger, and a softmax of large numbers has almost no gradient.

# %%
from glassformer.claims.properties import spread_by_width

for scaled in (False, True):
    print("scaled" if scaled else "plain ", end="")
    for spread in spread_by_width((16, 64, 256, 1024), scaled=scaled):
        print(f"   k = {spread.width:4}: {spread.deviation:5.2f}", end="")
    print()

# %% [markdown]
# ## Several heads
#
# Four narrow heads cost as much as one wide one: the width is split among them.

# %%
from glassformer.nn import AttentionConfig
from glassformer.nn.attention import MultiHeadAttention

for heads in (1, 4):
    attention = MultiHeadAttention(256, AttentionConfig(n_heads=heads))
    maps = (attention.to_queries, attention.to_keys, attention.to_values)
    print(f"{heads} head(s): {sum(m.weight.numel() for m in maps):,} parameters")

# %% [markdown]
# ## A block and a classifier
#
# Attention, feed-forward, residual connections and layer norms make a block; the mean over the
# words and a linear map make a classifier. This one is trained here on twelve short reviews.

# %%
from glassformer.lessons.classifier import REVIEWS, learn

learned = learn()
print(f"{learned.right} of {len(REVIEWS)} reviews right")
for review in ("not a bad film", "not a good film", "good not bad", "bad not good"):
    shares = learned.model(torch.tensor([learned.words.encode(review)]))[0]
    print(f"{review:<16} positive with {100 * shares[1].item():.0f} %")

# %% [markdown]
# The last two have the same words. Without positions no Transformer can tell them apart:

# %%
blind = learn(positions=False)
for review in ("good not bad", "bad not good"):
    shares = blind.model(torch.tensor([blind.words.encode(review)]))[0]
    print(f"{review:<16} positive with {100 * shares[1].item():.0f} %")

# %% [markdown]
# ## Look inside
#
# The first review on its way through the block, with the real numbers.

# %%
from glassformer.lessons.figures.model_figures import block_figure
from glassformer.tracing import trace

words = REVIEWS[0][0].split()
ids = torch.tensor([learned.words.encode(REVIEWS[0][0])])
run = trace(learned.model, ids, axis_labels={"ids": words})
block_figure(run, words, "en")

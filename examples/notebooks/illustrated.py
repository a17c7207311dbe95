# %% [markdown]
# # Self-attention with three inputs
#
# Three vectors of four numbers go in, three vectors of three come out. Every step is a line of
# PyTorch; at the end the same numbers come out of the module that trains real models here, and each
# can be traced back to what made it. Run the cells from top to bottom.

# %% [markdown zh]
# # 三个输入的自注意力
#
# 输入三个长度为 4 的向量，输出三个长度为 3 的向量。每一步都是一行 PyTorch；最后，真正用来训练模型
# 的模块会给出同样的数，而且每个数都能追溯到它的来历。请从上到下运行各个单元格。

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

# %% [markdown zh]
# ## 键、查询、值
#
# 三次矩阵乘法，使每个输入得到一个键、一个查询和一个值。

# %%
keys, queries, values = x @ w_key, x @ w_query, x @ w_value
keys

# %% [markdown]
# ## Scores
#
# The query of each input times the key of each input: row *i* belongs to query *i*, column *j* to
# key *j*.

# %% [markdown zh]
# ## 分数
#
# 每个输入的查询乘以每个输入的键：第 *i* 行属于查询 *i*，第 *j* 列属于键 *j*。

# %%
scores = queries @ keys.T
scores

# %% [markdown]
# ## Weights
#
# A softmax along each row: positive weights that add up to one. (Texts often round them to one
# decimal to continue by hand; that is a choice, and the outputs change with it.)

# %% [markdown zh]
# ## 权重
#
# 对每一行取 softmax：权重都是正的，和为 1。（教程常把它们舍入到一位小数，以便继续手算；这是一种取
# 舍，输出会随之改变。）

# %%
weights = torch.softmax(scores, dim=-1)
weights

# %% [markdown]
# ## Weighted values and their sums
#
# First all summands, as a 3 × 3 × 3 tensor: input, output, entry. Their sum over the inputs is the
# output, and one matrix product computes it at once.

# %% [markdown zh]
# ## 加权的值与它们的和
#
# 先写出全部加数，是一个 3 × 3 × 3 的张量：输入、输出、分量。对输入求和就是输出，而一次矩阵乘法就
# 能直接算出。

# %%
weighted = values[:, None] * weights.T[:, :, None]
outputs = weighted.sum(dim=0)
assert torch.allclose(outputs, weights @ values)
outputs

# %% [markdown]
# ## The same in the module that trains
#
# `MultiHeadAttention` with one head, no scaling and no output map computes exactly this.

# %% [markdown zh]
# ## 在用于训练的模块中
#
# 一个头、不缩放、没有输出映射的 `MultiHeadAttention` 算的正是这些。

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

# %% [markdown zh]
# ## 一个数从何而来？

# %%
print(run["context"][0, 0, 0, 1].explain(depth=2))

# %% [markdown]
# ## What if it were different?
#
# Change a number, and everything that depends on it is recomputed.

# %% [markdown zh]
# ## 如果它是别的数呢？
#
# 改动一个数，所有依赖它的数都会重新计算。

# %%
edited = run.edit({("weights", (0, 0, 0, 0)): 0.0, ("weights", (0, 0, 0, 1)): 0.5})
edited["context"].value[0, 0]

# %% [markdown]
# ## As pictures
#
# The figures are drawn from the recorded numbers.

# %% [markdown zh]
# ## 画成图
#
# 这些图由记录下来的数画出。

# %%
from glassformer.lessons.figures.attention_figures import scores_figure, softmax_figure

scores_figure(run, "en")

# %%
softmax_figure(run, "en")

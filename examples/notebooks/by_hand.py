# %% [markdown]
# # A Transformer computed by hand
#
# A text (Fareed Khan, “Solving Transformer by Hand”, Level Up Coding, 2023) computes a Transformer
# with printed numbers: six words, six dimensions, one head. Here the same formulas run on the same
# inputs, and each result is put beside the printed one. Where they differ, the audit says which
# slip gives exactly the printed digits.

# %% [markdown zh]
# # 手算一个 Transformer
#
# 有一篇文章（Fareed Khan，《漫画 Transformer：手把手用数学公式推导》，英文版载于 Level Up
# Coding，2023 年）用印出的数手算了一个 Transformer：六个词、六维、一个头。这里用同样的输入计算同样
# 的公式，把结果放在印出的数旁边。两者不同时，由审计指出是哪种错误恰好得出印出的那些数字。

# %%
import math

import torch
from torch import Tensor

from glassformer.audit.example_file import load_example
from glassformer.lessons.illustrated import printed_matrix

example = load_example("by-hand")


def printed(step: str) -> Tensor:
    """What the text prints for a step."""
    return printed_matrix(example, step).double()


def show(matrix: Tensor, decimals: int = 4) -> None:
    for row in matrix.tolist():
        print("  ".join(f"{number:{decimals + 3}.{decimals}f}" for number in row))


list(example["sentence"].columns)

# %% [markdown]
# ## Words to vectors
#
# The embedding is given, one column per word. (Of “When you play the game of thrones” the text lost
# the word “the”.)

# %% [markdown zh]
# ## 从词到向量
#
# 嵌入是给定的，每列一个词。（原句是 “When you play the game of thrones”，文章漏了 “the”。）

# %%
embedding = printed("embedding")
show(embedding, 2)

# %% [markdown]
# ## Positions
#
# sin(pos / 10000^(2i/6)) in the even rows, the cosine of the same angle in the odd ones. The
# printed matrix differs.

# %% [markdown zh]
# ## 位置
#
# 偶数行是 sin(pos / 10000^(2i/6))，奇数行是同一个角的 cos。印出的矩阵与此不同。

# %%
words, pairs = torch.arange(6, dtype=torch.float64), torch.arange(3, dtype=torch.float64)[:, None]
angles = words / 10_000 ** (2 * pairs / 6)
position = torch.stack([angles.sin(), angles.cos()], dim=1).flatten(0, 1)
show(position)

# %%
show(printed("position"))

# %% [markdown]
# Two slips together explain the printed numbers: the exponent counts dimensions (0 to 5) instead of
# pairs, and in some columns the odd rows have a sine. Committed on purpose, they give the printed
# matrix:

# %% [markdown zh]
# 两处错误合在一起就能解释印出的数：指数数的是维度（0 到 5）而不是第几对，而且有几列的奇数行用了
# sin。故意犯同样的错，就得到印出的矩阵：

# %%
rows = torch.arange(6, dtype=torch.float64)[:, None]
slipped_angles = words / 10_000 ** (2 * rows / 6)
slipped = torch.where(rows % 2 == 0, slipped_angles.sin(), slipped_angles.cos())
slipped[1::2, [1, 3, 4]] = slipped_angles.sin()[1::2, [1, 3, 4]]
assert torch.allclose(slipped.round(decimals=4), printed("position"), atol=1.01e-4)

# %% [markdown]
# ## Queries, keys, values
#
# From here on each step starts from what the text printed before it, so that one mistake is
# counted once. The queries are right; the values are not: the text printed the queries a second
# time. Below: the largest difference from the print.

# %% [markdown zh]
# ## 查询、键、值
#
# 以下每一步都从文章前面印出的数算起，这样一个错误只算一次。查询是对的，值不对：文章把查询又印了
# 一遍。下面是与印出的数的最大差别。

# %%
x = printed("x")
queries, keys, values = (x @ printed(name) for name in ("w_query", "w_key", "w_value"))
print(f"Q: {(queries - printed('query')).abs().max():.2f}")
print(f"K: {(keys - printed('key')).abs().max():.2f}")
print(f"V: {(values - printed('value')).abs().max():.2f}")
print(f"V = Q: {(queries - printed('value')).abs().max():.2f}")

# %% [markdown]
# ## Scores, divided by √d_k
#
# The text divides by √6, the width of the words. Queries and keys are four wide: √4.

# %% [markdown zh]
# ## 除以 √d_k 的分数
#
# 文章除以的是 √6，即词向量的宽度。查询和键的宽度是 4，应除以 √4。

# %%
scores = printed("query") @ printed("key").T
for width in (6, 4):
    print(f"√{width}: {(scores / math.sqrt(width) - printed('scaled')).abs().max():.2f}")

# %% [markdown]
# Does it matter? The weights of the first word with either divisor. (From the scores that it
# prints, the text's head is computed correctly.)

# %% [markdown zh]
# 这有影响吗？下面是第一个词在两种除数下的权重。（由文章印出的分数算起，这个头的输出是对的。）

# %%
for width in (6, 4):
    weights = torch.softmax(scores / math.sqrt(width), dim=-1)
    print(f"√{width}:", *(f"{weight:.3f}" for weight in weights[0].tolist()))
head = torch.softmax(printed("softmax_input"), dim=-1) @ printed("value")
assert torch.allclose(head, printed("head"), atol=1e-3)

# %% [markdown]
# ## Add & Norm
#
# The sum of the head's output and the input is normalised row by row. The text's means are
# geometric ones, the n-th root of a product. For the first row: the arithmetic mean, the geometric
# mean, the printed one.

# %% [markdown zh]
# ## Add & Norm
#
# 头的输出加上输入，再逐行归一化。文章的“均值”其实是几何平均，即乘积的 n 次方根。第一行的算术平
# 均、几何平均、印出的数依次为：

# %%
first = (printed("attention_output") + x)[0]
print(f"{first.mean():.3f}")
print(f"{first.log().mean().exp():.3f}")
print(f"{printed('stats_1')[0, 0]:.3f}")

# %% [markdown]
# ## Every number, checked
#
# The audit does this for all steps: it recomputes each from the numbers printed above it, within
# what rounding allows, and searches for the slip where it does not agree.

# %% [markdown zh]
# ## 核对每一个数
#
# 审计对所有步骤都这样做：由上面印出的数重新计算，容许四舍五入的误差；对不上时寻找是哪种错误。

# %%
from glassformer.audit.judgement import audit

found = audit(example)
found.counts

# %%
for step in found.to_dict("en")["steps"]:
    if step["verdict"] == "wrong":
        title = example[step["id"]].title.say("en")
        print(f"{title}: {step['slip']}")

# %% [markdown]
# ## The whole model with consistent numbers
#
# Encoder, decoder and prediction in one pass, with the formulas as they should be. (The text prints
# neither its feed-forward parameters nor the decoder's; those are made up.) Which word follows
# `<start>`, and where does its number come from?

# %% [markdown zh]
# ## 用前后一致的数计算整个模型
#
# 编码器、解码器和预测一次算完，公式都照应有的样子。（前馈网络和解码器的参数文章没有印出，是另行设
# 定的。）`<start>` 之后是哪个词？它的数从何而来？

# %%
from glassformer.lessons.by_hand import by_hand_trace, names_of
from glassformer.tracing.explanation import Card

run = by_hand_trace()
probabilities = run["probabilities"]
best = int(probabilities.value.flatten().argmax())
print(names_of(example).vocabulary[best], f"{probabilities.value.flatten()[best]:.3f}")
card = Card(run["model.encoder.blocks.0.attention.scores"][0, 0, 0, 1])
print(f"{card.name} = {card.formula}\n= {card.numbers}\n= {card.value}")

# %% [markdown]
# The same as a page with pictures: `glassformer lesson by-hand -o by-hand.html`; the audit as a
# table: `glassformer audit by-hand`.

# %% [markdown zh]
# 同样的内容做成带图的网页：`glassformer lesson by-hand -o by-hand.html --lang zh`；审计结果列成
# 表： `glassformer audit by-hand --lang zh`。

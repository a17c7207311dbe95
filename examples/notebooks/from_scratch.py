# %% [markdown]
# # A Transformer from scratch
#
# From a weighted average to a trained classifier. Every part is written here, in plain PyTorch;
# only the last cells import Glassformer, to compare: with the same parameters both give the same
# numbers. (The order of ideas follows Peter Bloem, *Transformers from scratch*.)

# %% [markdown zh]
# # 从零写一个 Transformer
#
# 从加权平均一直写到训练好的分类器。每个部件都在这里用 PyTorch 写出；只有最后几格才导入
# Glassformer 来对照：参数相同，两边的数就相同。（思路的次序参照 Peter Bloem 的 *Transformers from
# scratch*。）

# %%
import math

import torch
from torch import Tensor, nn

# %% [markdown]
# ## Basic self-attention
#
# Every output is a weighted average of all inputs; the weights come from dot products. Nothing is
# learned. First for one output at a time, then all of it as two matrix products.

# %% [markdown zh]
# ## 基本的自注意力
#
# 每个输出都是全部输入的加权平均，权重来自点积，没有任何要学习的东西。先一个一个输出地算，再用两次
# 矩阵乘法一起算。


# %%
def one_output(x: Tensor, i: int) -> Tensor:
    scores = torch.stack([torch.dot(x[i], x[j]) for j in range(len(x))])
    powers = torch.exp(scores)
    weights = powers / powers.sum()
    mixed: Tensor = sum((weights[j] * x[j] for j in range(len(x))), torch.zeros_like(x[i]))
    return mixed


def basic_self_attention(x: Tensor) -> Tensor:
    weights = torch.softmax(x @ x.T, dim=-1)
    return weights @ x


draws = torch.Generator().manual_seed(0)
x = torch.randn(5, 4, generator=draws, dtype=torch.float64)
one_by_one = torch.stack([one_output(x, i) for i in range(5)])
assert torch.allclose(one_by_one, basic_self_attention(x))
basic_self_attention(x)

# %% [markdown]
# The order of the inputs does not matter: permuted inputs give permuted outputs.

# %% [markdown zh]
# 输入的次序没有影响：输入换了次序，输出也只是换了次序。

# %%
order = torch.tensor([3, 0, 4, 1, 2])
assert torch.allclose(basic_self_attention(x)[order], basic_self_attention(x[order]))

# %% [markdown]
# ## Why divide by √k
#
# Dot products of longer vectors are larger (their standard deviation is √k), and a softmax of large
# numbers puts all its weight on one of them: there the gradient is almost zero. Divided by √k, the
# scores keep their size. Below: the standard deviation of the scores of random vectors, and the
# largest of ten weights on average.

# %% [markdown zh]
# ## 为什么除以 √k
#
# 向量越长，点积越大（标准差为 √k），而 softmax 遇到很大的数时会把全部权重给其中一个，梯度几乎为
# 零。除以 √k，分数的大小就保持不变。下面是随机向量的分数的标准差，以及十个权重中最大者的平均。

# %%
print("   k    q·k    max    q·k/√k  max")
for k in (16, 64, 256, 1024):
    queries = torch.randn(200, k, generator=draws, dtype=torch.float64)
    keys = torch.randn(10, k, generator=draws, dtype=torch.float64)
    scores = queries @ keys.T
    scaled = scores / math.sqrt(k)
    shown = [
        number
        for found in (scores, scaled)
        for number in (found.std(), torch.softmax(found, dim=-1).amax(dim=-1).mean())
    ]
    print(f"{k:4}", *(f"{number:6.2f}" for number in shown))

# %% [markdown]
# ## Queries, keys, values, several heads
#
# Each vector plays three parts, and gets a matrix for each. The width is split among the heads, so
# four narrow heads have as many parameters as one wide one. `visible` is True where a query may
# look.

# %% [markdown zh]
# ## 查询、键、值，以及多个头
#
# 每个向量要扮演三个角色，每个角色有一个矩阵。宽度分给各个头，所以四个窄头的参数与一个宽头一样多。
# `visible` 为 True 处，查询可以看到。


# %%
class SelfAttention(nn.Module):
    def __init__(self, width: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.to_queries = nn.Linear(width, width, bias=False)
        self.to_keys = nn.Linear(width, width, bias=False)
        self.to_values = nn.Linear(width, width, bias=False)
        self.to_output = nn.Linear(width, width)

    def split(self, x: Tensor) -> Tensor:
        """(B, T, D) → (B, H, T, E)"""
        batch, length, width = x.shape
        return x.view(batch, length, self.n_heads, width // self.n_heads).transpose(1, 2)

    def forward(self, x: Tensor, visible: Tensor) -> Tensor:
        queries = self.split(self.to_queries(x))
        keys = self.split(self.to_keys(x))
        values = self.split(self.to_values(x))
        scores = queries @ keys.mT / math.sqrt(queries.size(-1))
        hidden = scores.masked_fill(~visible, -math.inf)
        weights = torch.softmax(hidden, dim=-1)
        context = weights @ values
        merged = context.transpose(1, 2).flatten(-2)
        output: Tensor = self.to_output(merged)
        return output


for n_heads in (1, 4):
    count = sum(p.numel() for p in SelfAttention(256, n_heads).parameters())
    print(f"{n_heads} × {256 // n_heads:3}: {count:,}")

# %% [markdown]
# ## Layer norm, feed-forward, block
#
# Attention mixes positions, the feed-forward network works on each by itself. Around both there is
# a residual connection, and a norm after the sum.

# %% [markdown zh]
# ## 层归一化、前馈网络、块
#
# 注意力把各个位置混合起来，前馈网络则各算各的。两者都带残差连接，相加之后再归一化。


# %%
class LayerNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(dim=-1, keepdim=True)
        variance = (centred**2).mean(dim=-1, keepdim=True)
        normed: Tensor = centred / torch.sqrt(variance + 1e-5) * self.weight + self.bias
        return normed


class FeedForward(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.expand = nn.Linear(width, inner)
        self.contract = nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        contracted: Tensor = self.contract(torch.relu(self.expand(x)))
        return contracted


class Block(nn.Module):
    def __init__(self, width: int, n_heads: int) -> None:
        super().__init__()
        self.attention = SelfAttention(width, n_heads)
        self.attention_norm = LayerNorm(width)
        self.feed_forward = FeedForward(width, 4 * width)
        self.feed_forward_norm = LayerNorm(width)

    def forward(self, x: Tensor, visible: Tensor) -> Tensor:
        middle = self.attention_norm(x + self.attention(x, visible))
        result: Tensor = self.feed_forward_norm(middle + self.feed_forward(middle))
        return result


# %% [markdown]
# ## Positions and a classifier
#
# A word's vector plus a vector of its position goes through the block; the mean over the words and
# a linear map give one number for each class. Padding (id 0) is neither looked at nor averaged.

# %% [markdown zh]
# ## 位置与分类器
#
# 词的向量加上位置的向量，通过这个块；再对各个词取平均，经线性映射得到每个类别的一个数。填充（编号
# 0）既不被关注，也不参与平均。


# %%
class ReviewClassifier(nn.Module):
    def __init__(self, n_words: int, length: int, width: int, n_heads: int) -> None:
        super().__init__()
        self.words = nn.Embedding(n_words, width)
        self.positions = nn.Embedding(length, width)
        self.block = Block(width, n_heads)
        self.to_classes = nn.Linear(width, 2)
        self.knows_order = True

    def forward(self, ids: Tensor) -> Tensor:
        is_word = ids != 0
        x = self.words(ids)
        if self.knows_order:
            x = x + self.positions(torch.arange(ids.size(1)))
        y = self.block(x, is_word[:, None, None, :])
        total = (y * is_word[:, :, None]).sum(dim=1)
        logits: Tensor = self.to_classes(total / is_word.sum(dim=1, keepdim=True))
        return logits


# %% [markdown]
# ## Data, and the training loop
#
# Twelve short reviews; 1 is positive. Printed: step, loss, how many are right. Two of them have the
# same words in another order.

# %% [markdown zh]
# ## 数据与训练循环
#
# 十二条很短的影评，1 表示好评。打印的依次是步数、损失、判断正确的条数。其中两条用词相同，次序不
# 同。

# %%
REVIEWS = {
    "good not bad": 1, "bad not good": 0, "a good film": 1, "a bad film": 0,
    "not a bad film": 1, "not a good film": 0, "a film not bad": 1, "a film not good": 0,
    "not bad": 1, "not good": 0, "a really good film": 1, "a really bad film": 0,
}  # fmt: skip
vocabulary = ["<pad>", *dict.fromkeys(" ".join(REVIEWS).split())]


def encode(review: str, length: int = 4) -> list[int]:
    ids = [vocabulary.index(word) for word in review.split()]
    return ids + [0] * (length - len(ids))


ids = torch.tensor([encode(review) for review in REVIEWS])
labels = torch.tensor(list(REVIEWS.values()))


def train(*, knows_order: bool, steps: int = 100) -> ReviewClassifier:
    torch.manual_seed(0)
    model = ReviewClassifier(len(vocabulary), 4, width=8, n_heads=2).double()
    model.knows_order = knows_order
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(steps + 1):
        log_probabilities = torch.log_softmax(model(ids), dim=-1)
        loss = -log_probabilities[torch.arange(len(ids)), labels].mean()
        if step % 25 == 0:
            right = (log_probabilities.argmax(dim=-1) == labels).sum()
            print(f"{step:4}  {loss.item():.2f}  {right.item():2}/{len(ids)}")
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model


with torch.random.fork_rng():
    model = train(knows_order=True)

# %% [markdown]
# Without positions no Transformer can tell the two reviews with the same words apart: their loss
# cannot fall below log 2, nor the mean below 2/12 · log 2 = 0.12.

# %% [markdown zh]
# 没有位置，任何 Transformer 都分不清用词相同的那两条：它们的损失不可能低于 log 2，平均也就不可能
# 低于 2/12 · log 2 = 0.12。

# %%
with torch.random.fork_rng():
    blind = train(knows_order=False)
pair = torch.tensor([encode("good not bad"), encode("bad not good")])
for trained in (model, blind):
    positive = torch.softmax(trained(pair), dim=-1)[:, 1]
    print([round(100 * p) for p in positive.tolist()])

# %% [markdown]
# ## The same in the library
#
# Glassformer's classifier, with the parameters that were trained above, gives the same logits.

# %% [markdown zh]
# ## 与库中的模型对照
#
# 把上面训练好的参数装进 Glassformer 的分类器，得到同样的 logits。

# %%
from glassformer import build
from glassformer.nn import presets

config = presets.bloem_2024(
    vocab_size=len(vocabulary), d_model=8, n_heads=2, n_layers=1, d_ff=32, max_len=4, pad_id=0
)
library = build(config, attention="written").double().eval()
places = {
    "words.": "encoder.embedding.",
    "positions.": "encoder.positions.table.",
    "block.": "encoder.blocks.0.",
}


def place(name: str) -> str:
    for mine, theirs in places.items():
        if name.startswith(mine):
            return theirs + name.removeprefix(mine)
    return name


library.load_state_dict({place(name): value for name, value in model.state_dict().items()})
with torch.no_grad():
    difference = float((library(ids) - model(ids)).abs().max())
assert difference < 1e-6
print(difference < 1e-6)

# %% [markdown]
# ## Look inside
#
# What the library adds: every number of the pass can be traced to the arithmetic that made it. The
# first review on its way through the block:

# %% [markdown zh]
# ## 看看里面
#
# 库所增加的是：这次计算中的每个数都能追溯到它的算式。第一条影评通过这个块的过程：

# %%
from glassformer.lessons.figures.model_figures import block_figure
from glassformer.tracing import trace

words = ["good", "not", "bad"]
run = trace(library.float(), torch.tensor([encode("good not bad", 3)]), axis_labels={"ids": words})
block_figure(run, words, "en")

# %% [markdown]
# # Attention is all you need: the encoder-decoder
#
# The model of the paper (Vaswani et al. 2017), small enough to read and to train in a second. It is
# written here in full; at the end its numbers are compared with those of `torch.nn.Transformer` and
# of Glassformer, with the same parameters.

# %% [markdown zh]
# # Attention is all you need：编码器与解码器
#
# 论文（Vaswani 等，2017）中的模型，小到可以通读，一秒左右就能训练。全部代码都写在这里；最后用相同
# 的参数与 `torch.nn.Transformer` 和 Glassformer 的结果对照。

# %%
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# %% [markdown]
# ## Scaled dot-product attention (section 3.2.1)
#
# softmax(Q Kᵀ / √d_k) V. A mask is True where a query may attend; elsewhere the score becomes −∞
# before the softmax, so that its weight is exactly 0.

# %% [markdown zh]
# ## 缩放点积注意力（3.2.1 节）
#
# softmax(Q Kᵀ / √d_k) V。掩码为 True 处可以关注；其余位置的分数在 softmax 之前设为 −∞，权重就恰好
# 是 0。


# %%
def attend(queries: Tensor, keys: Tensor, values: Tensor, visible: Tensor) -> Tensor:
    scores = queries @ keys.mT / math.sqrt(queries.size(-1))
    weights = torch.softmax(scores.masked_fill(~visible, -math.inf), dim=-1)
    return weights @ values


torch.ones(4, 4, dtype=torch.bool).tril()

# %% [markdown]
# The mask of the decoder: row *i* is what position *i* may see, itself and what came before. In
# training the whole right answer is put in at once; without this mask each position would simply
# read the next word.
#
# ## Multi-head attention (3.2.2)
#
# Queries come from `x`, keys and values from `source`: from x itself in self-attention, from the
# encoder in the decoder's cross-attention.

# %% [markdown zh]
# 这是解码器的掩码：第 *i* 行是位置 *i* 能看到的，即它自己和它之前的位置。训练时整个正确答案一次放
# 进去；没有这个掩码，每个位置只要照抄下一个词就行了。
#
# ## 多头注意力（3.2.2 节）
#
# 查询来自 `x`，键和值来自 `source`：自注意力中就是 x 本身，解码器的交叉注意力中则是编码器的输出。


# %%
class MultiHead(nn.Module):
    def __init__(self, width: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.to_queries = nn.Linear(width, width)
        self.to_keys = nn.Linear(width, width)
        self.to_values = nn.Linear(width, width)
        self.to_output = nn.Linear(width, width)

    def forward(self, x: Tensor, source: Tensor, visible: Tensor) -> Tensor:
        def split(y: Tensor) -> Tensor:
            pieces: Tensor = y.unflatten(-1, (self.n_heads, -1))
            return pieces.transpose(1, 2)

        queries = split(self.to_queries(x))
        keys, values = split(self.to_keys(source)), split(self.to_values(source))
        context = attend(queries, keys, values, visible)
        output: Tensor = self.to_output(context.transpose(1, 2).flatten(-2))
        return output


# %% [markdown]
# ## Layers (3.1, 3.3)
#
# A layer of the encoder: self-attention and feed-forward. A layer of the decoder has
# cross-attention between them. "Add & Norm" after each: the sublayer's output is added to its
# input, and the sum is brought to mean 0 and variance 1.

# %% [markdown zh]
# ## 层（3.1、3.3 节）
#
# 编码器层：自注意力和前馈网络。解码器层在两者之间还有交叉注意力。每个子层之后都有 “Add & Norm”：
# 子层的输出加到它的输入上，再把和变成均值 0、方差 1。


# %%
class FeedForward(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.expand = nn.Linear(width, inner)
        self.contract = nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        contracted: Tensor = self.contract(torch.relu(self.expand(x)))
        return contracted


class Layer(nn.Module):
    def __init__(self, width: int, n_heads: int, inner: int, *, decoder: bool) -> None:
        super().__init__()
        self.attention = MultiHead(width, n_heads)
        self.attention_norm = nn.LayerNorm(width)
        if decoder:
            self.cross_attention = MultiHead(width, n_heads)
            self.cross_attention_norm = nn.LayerNorm(width)
        self.feed_forward = FeedForward(width, inner)
        self.feed_forward_norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, visible: Tensor, memory: Tensor | None = None) -> Tensor:
        x = self.attention_norm(x + self.attention(x, x, visible))
        if memory is not None:
            everything = torch.ones(1, 1, dtype=torch.bool)
            x = self.cross_attention_norm(x + self.cross_attention(x, memory, everything))
        result: Tensor = self.feed_forward_norm(x + self.feed_forward(x))
        return result


# %% [markdown]
# ## Embeddings, positions, output (3.4, 3.5)
#
# One table serves three times: for source, target and output. Vectors are multiplied by √d_model,
# then the sinusoids of their positions are added.

# %% [markdown zh]
# ## 嵌入、位置、输出（3.4、3.5 节）
#
# 同一张表用三次：源文本、目标文本和输出。向量先乘以 √d_model，再加上所在位置的正弦编码。


# %%
def sinusoids(length: int, width: int) -> Tensor:
    positions = torch.arange(length, dtype=torch.float64)[:, None]
    angles = positions / 10_000 ** (torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


class EncoderDecoder(nn.Module):
    def __init__(self, n_words: int, width: int, n_heads: int, inner: int, n_layers: int) -> None:
        super().__init__()
        self.width = width
        self.table = nn.Embedding(n_words, width)
        nn.init.normal_(self.table.weight, std=width**-0.5)
        sizes = (width, n_heads, inner)
        self.encoder = nn.ModuleList(Layer(*sizes, decoder=False) for _ in range(n_layers))
        self.decoder = nn.ModuleList(Layer(*sizes, decoder=True) for _ in range(n_layers))

    def embed(self, ids: Tensor) -> Tensor:
        tokens: Tensor = self.table(ids) * math.sqrt(self.width)
        return tokens + sinusoids(ids.size(1), self.width).to(tokens)

    def encode(self, source: Tensor) -> Tensor:
        x = self.embed(source)
        for layer in self.encoder:
            x = layer(x, torch.ones(1, 1, dtype=torch.bool))
        return x

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory, x = self.encode(source), self.embed(target)
        length = target.size(1)
        before = torch.ones(length, length, dtype=torch.bool).tril()
        for layer in self.decoder:
            x = layer(x, before, memory)
        return x @ self.table.weight.T


# %% [markdown]
# ## Training: teacher forcing
#
# The task: write a word of four letters backwards. The decoder's input is the right answer shifted
# by one place, with a start token in front; at each place it is to predict the next letter.
# Printed: step, loss, letters that are right.

# %% [markdown zh]
# ## 训练：教师强制
#
# 任务：把四个字母的词倒着写。解码器的输入是右移一位的正确答案，最前面放起始词元；它在每个位置预测
# 下一个字母。打印的依次是步数、损失、正确字母的比例。

# %%
LETTERS, START = 8, 8


def batch(n: int, draws: torch.Generator) -> tuple[Tensor, Tensor]:
    source = torch.randint(0, LETTERS, (n, 4), generator=draws)
    start = torch.full((n, 1), START)
    return source, torch.cat([start, source.flip(1)], dim=1)


with torch.random.fork_rng():
    torch.manual_seed(1)
    model = EncoderDecoder(LETTERS + 1, width=32, n_heads=4, inner=64, n_layers=1).double()
draws = torch.Generator().manual_seed(0)
optimiser = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.9, 0.98), eps=1e-9)
for step in range(301):
    source, target = batch(64, draws)
    logits = model(source, target[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())
    if step % 300 == 0:
        right = (logits.argmax(dim=-1) == target[:, 1:]).double().mean()
        print(f"{step:4}  {loss.item():.1f}  {100 * right.item():3.0f} %")
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()

# %% [markdown]
# ## Writing: one letter at a time
#
# Now nobody gives the right answer: each letter is computed from those written so far.

# %% [markdown zh]
# ## 生成：一次一个字母
#
# 现在没有人给出正确答案了：每个字母都由已经写出的字母算出。


# %%
def write(source: Tensor) -> Tensor:
    target = torch.full((len(source), 1), START)
    for _ in range(source.size(1)):
        best = model(source, target)[:, -1].argmax(dim=-1, keepdim=True)
        target = torch.cat([target, best], dim=1)
    return target[:, 1:]


model.eval()
source, target = batch(200, torch.Generator().manual_seed(99))
with torch.no_grad():
    written = write(source)
right = (written == target[:, 1:]).all(dim=1).sum()
print("".join("abcdefgh"[i] for i in source[0]), "→", "".join("abcdefgh"[i] for i in written[0]))
assert right >= 190, right

# %% [markdown]
# ## The same in torch.nn
#
# `torch.nn.Transformer` has the layers, without embeddings and output. (It adds one more norm after
# the last layer of encoder and decoder, which the paper does not have: here it is taken out.)

# %% [markdown zh]
# ## 与 torch.nn 对照
#
# `torch.nn.Transformer` 只有各层，没有嵌入和输出。（它在编码器和解码器的最后一层之后各多一个归一
# 化，论文里没有，这里把它去掉。）

# %%
theirs = nn.Transformer(32, 4, 1, 1, 64, 0.0, batch_first=True).double()
theirs.encoder.norm = theirs.decoder.norm = None


def copy_attention(mine: MultiHead, other: nn.MultiheadAttention) -> None:
    maps = (mine.to_queries, mine.to_keys, mine.to_values)
    assert other.in_proj_weight is not None
    other.in_proj_weight.copy_(torch.cat([linear.weight for linear in maps]))
    other.in_proj_bias.copy_(torch.cat([linear.bias for linear in maps]))
    other.out_proj.load_state_dict(mine.to_output.state_dict())


with torch.no_grad():
    for mine, other in (
        (model.encoder[0], theirs.encoder.layers[0]),
        (model.decoder[0], theirs.decoder.layers[0]),
    ):
        assert isinstance(mine, Layer)
        norms = [mine.attention_norm, mine.feed_forward_norm]
        copy_attention(mine.attention, other.self_attn)
        if other is theirs.decoder.layers[0]:
            copy_attention(mine.cross_attention, other.multihead_attn)
            norms.insert(1, mine.cross_attention_norm)
        for number, norm in enumerate(norms, start=1):
            getattr(other, f"norm{number}").load_state_dict(norm.state_dict())
        other.linear1.load_state_dict(mine.feed_forward.expand.state_dict())
        other.linear2.load_state_dict(mine.feed_forward.contract.state_dict())
    after = torch.ones(4, 4, dtype=torch.bool).triu(1)
    vectors = theirs(model.embed(source), model.embed(target[:, :-1]), tgt_mask=after)
    mine_logits = model(source, target[:, :-1])
    difference = float((vectors @ model.table.weight.T - mine_logits).abs().max())
assert difference < 1e-6
print(difference < 1e-6)

# %% [markdown]
# ## The same in Glassformer
#
# The preset `vaswani_2017_base` in this size, with the parameters that were trained above. Then one
# word goes through it under the trace: which letters of the source does the decoder attend to while
# it writes? Printed: the place with the largest weight, on average over the heads, for each letter.

# %% [markdown zh]
# ## 与 Glassformer 对照
#
# 预设 `vaswani_2017_base` 取同样的大小，装入上面训练好的参数。再让一个词在追踪下通过它：解码器写
# 每个字母时，关注源文本的哪个字母？打印的是写每个字母时权重最大的位置（各头平均）。

# %%
from glassformer import build
from glassformer.nn import presets
from glassformer.tracing import trace

config = presets.vaswani_2017_base(
    vocab_size=LETTERS + 1, d_model=32, n_heads=4, d_ff=64, n_layers=1, max_len=16
)
library = build(config, attention="written").double().eval()
parameters = {"to_vocabulary.weight": model.table.weight}
for side in ("encoder", "decoder"):
    parameters[f"{side}.embedding.weight"] = model.table.weight
    for name, value in getattr(model, side).state_dict().items():
        parameters[f"{side}.blocks.{name}"] = value
library.load_state_dict(parameters)
with torch.no_grad():
    difference = float((library(source, target[:, :-1]) - mine_logits).abs().max())
assert difference < 1e-6
print(difference < 1e-6)

# %%
run = trace(library, source[:1], target[:1, :-1])
weights = run["decoder.blocks.0.cross_attention.weights"].value[0].mean(dim=0)
most_attended = weights.argmax(dim=-1).tolist()
print("".join("abcdefgh"[i] for i in source[0]), most_attended)

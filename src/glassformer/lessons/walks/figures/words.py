"""What the figures say, in both languages."""

from __future__ import annotations

from glassformer.lessons.example import Bilingual
from glassformer.lessons.walks.phrases import Phrases

__all__ = ["FIGURE_WORDS"]

FIGURE_WORDS: Phrases = {
    # one thing each
    "input": Bilingual("input", "输入"),
    "inputs": Bilingual("inputs", "输入"),
    "query": Bilingual("query", "查询"),
    "key": Bilingual("key", "键"),
    "value": Bilingual("value", "值"),
    "queries": Bilingual("queries", "查询"),
    "keys": Bilingual("keys", "键"),
    "values": Bilingual("values", "值"),
    "score": Bilingual("score", "分数"),
    "scores": Bilingual("scores", "分数"),
    "weights": Bilingual("weights", "权重"),
    "weighted values": Bilingual("weighted values", "加权后的值"),
    "output": Bilingual("output", "输出"),
    "outputs": Bilingual("outputs", "输出"),
    "of input": Bilingual("{what} of input {number}", "输入 {number} 的{what}"),
    "numbered": Bilingual("input {number}", "输入 {number}"),
    "output of": Bilingual("output {number}", "输出 {number}"),
    "sum of rows": Bilingual("sum", "求和"),
    # self-attention, step by step
    "inputs figure": Bilingual("The three inputs", "三个输入"),
    "derive figure": Bilingual(
        "A key, a query and a value from each input", "由每个输入得到键、查询和值"
    ),
    "keys figure": Bilingual("The keys: inputs times W_K", "键：输入乘以 W_K"),
    "values figure": Bilingual("The values: inputs times W_V", "值：输入乘以 W_V"),
    "queries figure": Bilingual("The queries: inputs times W_Q", "查询：输入乘以 W_Q"),
    "scores figure": Bilingual(
        "The scores of input 1: its query times every key", "输入 1 的分数：它的查询与每个键作点积"
    ),
    "softmax figure": Bilingual("Softmax makes weights of the scores", "softmax 把分数变成权重"),
    "weighted figure": Bilingual("Every value times its weight", "每个值乘以它的权重"),
    "sum figure": Bilingual("The weighted values add up to output 1", "加权后的值相加，得到输出 1"),
    "repeat figure": Bilingual(
        "The same for inputs 2 and 3: all outputs at once",
        "对输入 2 和输入 3 同样处理：一次得到全部输出",
    ),
    # diagrams of attention
    "basic figure": Bilingual(
        "Basic self-attention: x₂ is query, key and value in one",
        "基本的自注意力：x₂ 同时充当查询、键和值",
    ),
    "key-query-value figure": Bilingual(
        "With three maps: query, key and value are different vectors",
        "加上三个映射：查询、键、值成为不同的向量",
    ),
    "mixed": Bilingual("weighted sum", "加权求和"),
    "dot": Bilingual("dot product", "点积"),
    "roles figure": Bilingual("Where x₂ acts: row, column, share", "x₂ 在哪里起作用：行、列、份额"),
    "as query": Bilingual("as a query: its row of scores", "作为查询：分数的一行"),
    "as key": Bilingual("as a key: its column of scores", "作为键：分数的一列"),
    "as value": Bilingual("as a value: a share of every output", "作为值：每个输出中的一份"),
    "share of": Bilingual("from x₂", "来自 x₂"),
    "whole": Bilingual("whole", "总和"),
    # heads
    "gave figure": Bilingual(
        "Two heads of “gave”: each looks elsewhere", "“gave”的两个头：各看各的"
    ),
    "head": Bilingual("head {number}", "第 {number} 个头"),
    "heads figure": Bilingual(
        "Four heads: cut, attend, join, map", "四个头：切开、各自注意、拼接、映射"
    ),
    "reshape figure": Bilingual(
        "One matrix becomes four: view, then transpose", "一个矩阵变成四个：先 view，再转置"
    ),
    "projected": Bilingual("queries, {shape}", "查询，{shape}"),
    "viewed": Bilingual("view: {shape}", "view：{shape}"),
    "transposed": Bilingual("transpose: {shape}", "转置：{shape}"),
    "joined": Bilingual("side by side", "首尾相接"),
    # block, classifier, architecture
    "block figure": Bilingual("A Transformer block", "Transformer 块"),
    "classifier figure": Bilingual("The classifier", "分类器"),
    "attention": Bilingual("self-attention", "自注意力"),
    "masked attention": Bilingual("masked self-attention", "掩码自注意力"),
    "cross-attention": Bilingual("cross-attention", "交叉注意力"),
    "feed-forward": Bilingual("feed-forward", "前馈网络"),
    "norm": Bilingual("layer norm", "层归一化"),
    "add and norm": Bilingual("add & norm", "残差相加与归一化"),
    "residual": Bilingual("residual connection", "残差连接"),
    "embedding": Bilingual("word + position", "词 + 位置"),
    "one block": Bilingual("block: self-attention, feed-forward", "块：自注意力、前馈网络"),
    "pooled": Bilingual("mean over the words", "对各词取平均"),
    "linear": Bilingual("linear map", "线性映射"),
    "softmax": Bilingual("softmax", "softmax"),
    "architecture figure": Bilingual(
        "The whole Transformer, and how far we are", "整个 Transformer，以及讲到了哪里"
    ),
    "encoder": Bilingual("encoder", "编码器"),
    "decoder": Bilingual("decoder", "解码器"),
    "memory": Bilingual("keys, values", "键、值"),
    "covered": Bilingual("covered so far", "已讲"),
    "to come": Bilingual("still to come", "待讲"),
    # the strip
    "strip figure": Bilingual(
        "A Transformer by hand, in nine pictures", "九幅图看懂手算 Transformer"
    ),
    "strip words": Bilingual("Six words, six numbers each.", "六个词，每个词六个数。"),
    "strip positions": Bilingual("Where do I stand? Add it!", "我站在哪儿？加上去！"),
    "strip queries": Bilingual("“{word}” asks a question …", "“{word}”提出一个问题……"),
    "strip scores": Bilingual("… and everyone scores.", "……大家各得一个分数。"),
    "strip weights": Bilingual("Softmax: shares of one.", "softmax：合起来正好是 1。"),
    "strip context": Bilingual("Mix the values by share.", "按份额把值混合起来。"),
    "strip norm": Bilingual("Add what I was. Tidy up.", "加上原来的我，再归一化。"),
    "strip decoder": Bilingual("{word} reads it all …", "{word} 通读全文……"),
    "strip prediction": Bilingual("… and says: “{word}”!", "……说出：“{word}”！"),
    # films
    "score figure": Bilingual(
        "How much will she like it? A dot product of features",
        "她会有多喜欢？特征的点积",
    ),
    "map figure": Bilingual("The films by their two learned features", "按两个学到的特征排列影片"),
    "film": Bilingual("film", "影片"),
    "liked": Bilingual("likes it", "喜欢"),
    "disliked": Bilingual("likes it not", "不喜欢"),
    "first feature": Bilingual("first learned feature", "学到的第一个特征"),
    "second feature": Bilingual("second learned feature", "学到的第二个特征"),
}

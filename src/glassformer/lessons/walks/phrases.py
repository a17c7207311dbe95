"""What the steps of every lesson say, in English and Chinese, by the role of the step.

`{row}` and `{column}` are labels of the chosen cell (tokens where there are some), `{value}` its
number. A test holds both languages to the same placeholders.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from glassformer.lessons.example import Bilingual, Language

__all__ = ["ROLES", "TITLES", "WORDS", "Phrases", "Speaker"]

Phrases = Mapping[str, Bilingual]

# Chinese quotation marks bring their own space.
_QUOTED = re.compile(r" *(“[^”]*”) *")
# Nor do Chinese characters have a space between them, where a label brings one along.
_BETWEEN = re.compile(r"(?<=[\u3000-\u9fff\uff00-\uffef]) +(?=[\u3000-\u9fff\uff00-\uffef])")
# A label such as `position 1` may begin an English sentence.
_BEGINNING = re.compile(r"(?:^|[.!?]\)? )[a-z]")

TITLES: Phrases = {
    "inputs": Bilingual("Inputs", "输入"),
    "embedding": Bilingual("From words to vectors", "从词元到向量：词嵌入"),
    "positions": Bilingual("Where each word stands", "位置编码"),
    "embedded": Bilingual("Word plus position", "词嵌入加位置编码"),
    "queries": Bilingual("Queries", "查询"),
    "keys": Bilingual("Keys", "键"),
    "values": Bilingual("Values", "值"),
    "scores": Bilingual("Scores: queries meet keys", "注意力分数：查询与键的点积"),
    "scaled": Bilingual("Scaling the scores", "缩放"),
    "masked": Bilingual("Hiding the future", "掩码：遮住后面的位置"),
    "masked padding": Bilingual("The mask: nothing to hide here", "掩码：这里没有需要遮住的"),
    "weights": Bilingual("Attention weights", "注意力权重"),
    "context": Bilingual("Weighted sum of the values", "对值加权求和"),
    "joined": Bilingual("Heads side by side", "拼接各个头"),
    "output": Bilingual("Back to the width of the model", "映射回模型宽度"),
    "sum": Bilingual("Residual connection", "残差连接"),
    "norm": Bilingual("Layer normalisation", "层归一化"),
    "feed-forward": Bilingual("Feed-forward network", "前馈网络"),
    "logits": Bilingual("Logits: a score for every word", "logits：给每个词打分"),
    "probabilities": Bilingual("Probabilities", "概率"),
    "prediction": Bilingual("The predicted word", "预测的词"),
}

ROLES: Phrases = {
    "embedding": Bilingual(
        "Each word has a number, and the number picks a row of the embedding table E. Entry "
        "{column} of {row} is {value}: nothing is computed, it is looked up.",
        "每个词都有一个编号，按编号在嵌入表 E 中取出一行。{row} 的分量 {column} 是 {value}："
        "这里没有计算，只是查表。",
    ),
    "positions": Bilingual(
        "Attention alone does not know the order of words, so a vector that depends only on the "
        "position is added. Dimensions come in pairs, a sine and the cosine of the same angle; "
        "from pair to pair the angle grows more slowly along the sentence. The formula counts "
        "positions and pairs from 0, so {row} has position {position}. Its dimension {column} is "
        "{value}.",
        "注意力本身不知道词的先后，因此要加上一个只取决于位置的向量。各维两两成对：同一角度的正弦和"
        "余弦；越往后的一对，角度随位置变化得越慢。公式中的位置和对都从 0 数起，所以 {row} 的位置"
        "是 {position}。它的维度 {column} 的值是 {value}。",
    ),
    "embedded": Bilingual(
        "The two are added, number by number. For {row} in dimension {column} this gives {value}. "
        "From here on a word's vector says what it is and where it stands.",
        "两者逐个分量相加。{row} 的维度 {column} 得到 {value}。从这里起，一个词的向量既包含它是什么"
        "，也包含它在哪里。",
    ),
    "queries": Bilingual(
        "Every vector asks a question: its query is the vector times W_Q. Entry {column} of the "
        "query of {row} adds up {summands} and is {value}.",
        "每个向量都要“提问”：向量乘以 W_Q 就是它的查询。{row} 的查询的分量 {column} 由 {summands} "
        "相加，等于 {value}。",
    ),
    "keys": Bilingual(
        "The same vectors, times W_K, give the keys: what each {unit} offers to the questions of "
        "the others. Entry {column} of the key of {row} is {value}.",
        "同样的向量乘以 W_K 得到键，也就是每个{unit}供其他位置匹配的内容。{row} 的键的分量 {column}"
        " 是 {value}。",
    ),
    "values": Bilingual(
        "Times W_V they give the values: what is passed on to whoever attends here. Entry "
        "{column} of the value of {row} is {value}.",
        "再乘以 W_V 得到值，也就是被关注时真正传出去的内容。{row} 的值的分量 {column} 是 {value}。",
    ),
    "scores": Bilingual(
        "The score of {row} against {column} is the dot product of the query of {row} with the "
        "key of {column}: {summands}, together {value}. The larger it is, the better the "
        "two match. In the row of {row} the best match is {best}.",
        "{row} 对 {column} 的注意力分数，是 {row} 的查询与 {column} 的键的点积：{summands} 之和"
        "为 {value}。分数越大，两者越匹配。在 {row} 这一行，最匹配的是 {best}。",
    ),
    "scaled": Bilingual(
        "Dot products of longer vectors spread more widely, so each score is divided by the "
        "square root of the key's width, here {divisor}. {row} against {column}: {value}.",
        "向量越长，点积的波动越大，因此每个分数都除以键的宽度的平方根，这里是 {divisor}。{row} 对 "
        "{column} 变为 {value}。",
    ),
    "scaled by one": Bilingual(
        "Here the scores are not scaled: the divisor is 1.",
        "这里的分数不作缩放：除数为 1。",
    ),
    "masked": Bilingual(
        "When it predicts what comes next, a position may look at itself and at what stands "
        "before it, never ahead. Scores that are hidden become −∞ (not 0: the softmax of 0 is "
        "not nothing). {row} against {column}: {value}.",
        "预测下一个词时，每个位置只能看自己和它前面的位置，不能偷看后面。被遮住的分数要设为 −∞，而"
        "不是 0，因为 0 经过 softmax 仍会分到权重。{row} 对 {column} 变为 {value}。",
    ),
    "masked padding": Bilingual(
        "Positions that hold no word would be hidden here with −∞. There are none, so {row} "
        "against {column} stays {value}.",
        "没有词的填充位置会在这里被设为 −∞。本句没有填充，所以 {row} 对 {column} 仍是 {value}。",
    ),
    "weights": Bilingual(
        "The softmax turns each row into shares: e to the power of each score, divided by the "
        "sum over the row. (The largest score m is subtracted first. That changes no share and "
        "keeps the powers small.) {row} gives {column} a weight of {value}, that is {percent}; "
        "the whole row adds up to 1.",
        "softmax 把每一行变成份额：先取 e 的分数次方，再除以整行之和。（先减去最大的分数 m，不改变"
        "份额，只是避免数值过大。）{row} 给 {column} 的注意力权重是 {value}，即 {percent}；整行之和"
        "为 1。",
    ),
    "context": Bilingual(
        "The output of {row} is a mixture of all values, each in proportion to its weight. Entry "
        "{column} is {value}; the largest share of it comes from {main}.",
        "{row} 的输出是所有值的混合，各值按注意力权重加权。分量 {column} 为 {value}，其中贡献最大的"
        "是 {main}。",
    ),
    "joined": Bilingual(
        "The outputs of the heads are put side by side: {row} now has {width} numbers, "
        "{per_head} from each head. Nothing is computed.",
        "把各个头的输出首尾相接：{row} 现在有 {width} 个数，每个头 {per_head} 个。这一步没有计算。",
    ),
    "output": Bilingual(
        "One more linear map, W_O, mixes the numbers of all heads and brings each vector back to "
        "{width} numbers, so that it can be added to what came in. Entry {column} of {row}: "
        "{value}.",
        "再经过一个线性变换 W_O，把各个头的结果混合起来，并把每个向量变回 {width} 维，这样才能与输"
        "入相加。{row} 的分量 {column} 是 {value}。",
    ),
    "sum": Bilingual(
        "What attention found is added to what was there before; the layer only has to learn the "
        "difference. {row}, dimension {column}: {value}.",
        "把注意力的结果加到原来的向量上，这样该层只需要学习“差值”。{row} 的维度 {column} 为 {value}"
        "。",
    ),
    "sum after feed-forward": Bilingual(
        "Again the result is added to what went in. {row}, dimension {column}: {value}.",
        "前馈网络的结果同样与它的输入相加。{row} 的维度 {column} 为 {value}。",
    ),
    "norm": Bilingual(
        "Each row is centred on its mean and divided by its standard deviation (that of all "
        "{n} numbers, divided by {n}, not {less}) plus a tiny ε, so that the divisor is never 0. "
        "The row of {row} has mean {mean} and deviation "
        "{deviation}; entry {column} becomes {value}.",
        "每一行先减去均值，再除以标准差（用全部 {n} 个数计算，除以 {n} 而不是 {less}）与极小的 ε 之"
        "和，这样除数不会为 0。{row} 这一行的均值是 {mean}，标准差是 {deviation}；分量 {column} "
        "变为 {value}。",
    ),
    "norm again": Bilingual(
        "Each row is normalised once more. The row of {row} has mean {mean} and deviation "
        "{deviation}; entry {column} becomes {value}.",
        "每一行再作一次层归一化。{row} 这一行的均值是 {mean}，标准差是 {deviation}；分量 {column} "
        "变为 {value}。",
    ),
    "feed-forward": Bilingual(
        "Every word goes alone through the same small network. First a linear map with a bias: "
        "entry {column} of {row} is {linear}. Then ReLU, which keeps positive numbers and turns "
        "the others into 0: {value}.",
        "每个词各自通过同一个小网络。先是带偏置的线性变换：{row} 的分量 {column} 是 {linear}；再经"
        "过 ReLU，正数保留，负数变为 0，得到 {value}。",
    ),
    "logits": Bilingual(
        "For every word of the vocabulary the last vector is multiplied, number by number, by the "
        "numbers that the output layer has for this word, and the products are added up. {column} "
        "scores {value}; the highest score is that of {best}.",
        "对词表中的每个词，用最后的向量与输出层中属于这个词的一组数作点积。{column} 的得分是 "
        "{value}，得分最高的是 {best}。",
    ),
    "probabilities": Bilingual(
        "A softmax over the vocabulary turns scores into probabilities. {column}: {value}, that "
        "is {percent}.",
        "对整个词表做 softmax，把得分变成概率。{column}：{value}，即 {percent}。",
    ),
    "prediction": Bilingual(
        "The most probable word is {best}, with {percent}. It is the prediction.",
        "概率最大的词是 {best}，为 {percent}，它就是预测结果。",
    ),
}

WORDS: Phrases = {
    "quoted": Bilingual("“{text}”", "“{text}”"),
    "and": Bilingual(" and ", " 和 "),
    "comma": Bilingual(", ", "、"),
    "word": Bilingual("word", "词"),
    "position": Bilingual("position", "位置"),
    "input": Bilingual("input", "输入"),
    "numbered input": Bilingual("input {number}", "输入 {number}"),
    "numbered position": Bilingual("position {number}", "位置 {number}"),
    "in head": Bilingual("{caption}, head {head}", "{caption}（第 {head} 个头）"),
    "step": Bilingual("Step {number}", "第 {number} 步"),
    "contents": Bilingual("Steps", "步骤"),
    "where": Bilingual("where", "其中"),
    "in the text": Bilingual("In the text", "原文"),
    "in the text:": Bilingual("In the text: ", "原文："),
    "more columns": Bilingual("… {count} more columns", "……另有 {count} 列"),
    "lessons": Bilingual("Lessons", "课程"),
    "given vectors": Bilingual("vectors, {shape}", "向量，{shape}"),
    "given words": Bilingual("{count} words", "{count} 个词"),
    "how to read": Bilingual(
        "Every number below was computed by Glassformer's own modules and recorded on the way; "
        "the framed number in a matrix is the one whose arithmetic is written out. Rows, columns "
        "and entries are counted from 1, as in the texts; the trace, like Python, counts them "
        "from 0. A matrix of parameters W stands as x · W uses it, one column for each output; "
        "PyTorch stores it the other way round, one row for each output.",
        "下面的每个数都由 Glassformer 的模块实际计算并记录；矩阵中带框的数，就是写出算式的那一个。"
        "行、列和分量与各篇文章一样从 1 开始编号；计算记录和 Python 一样从 0 开始。参数矩阵 W 按 "
        "x · W 的用法写出，每个输出一列；PyTorch 的存放方式正好相反，每个输出一行。",
    ),
    "lesson sheet": Bilingual("Lesson", "课程"),
    "more sheet": Bilingual("Other numbers", "其他数据"),
    "workbook how": Bilingual(
        "Coloured inputs and parameters may be changed: everything computed is a formula and "
        "follows. The sentences tell of the numbers as they were.",
        "有底色的输入和参数可以修改，计算所得都是公式，会随之更新；文字说明的是修改前的数值。",
    ),
    # the remark on what a text printed
    "printed agrees": Bilingual(
        "{verdict}: the printed {what} are these numbers, to the digits shown.",
        "{verdict}：印出的{what}与这里的数一致（按印出的位数）。",
    ),
    "printed wrong": Bilingual(
        "{verdict}. {slip}. In the framed cell the text has {printed}; right is {right}.",
        "{verdict}。{slip}。带框的位置，原文印的是 {printed}，正确的是 {right}。",
    ),
    "printed follows": Bilingual(
        "{verdict}: an earlier mistake shows here. In the framed cell the text has {printed}; "
        "right is {right}.",
        "{verdict}。带框的位置，原文印的是 {printed}，正确的是 {right}。",
    ),
    "verdict only": Bilingual("{verdict}. {slip}.", "{verdict}。{slip}。"),
    "numbers": Bilingual("numbers", "数值"),
    "products": Bilingual("{count} products", "{count} 个乘积"),
    "products and bias": Bilingual("{count} products and a bias", "{count} 个乘积和 1 个偏置"),
}


class Speaker:
    """Fills templates in one language."""

    def __init__(self, language: Language, *tables: Phrases) -> None:
        self.language = language
        self._tables = (*tables, ROLES, WORDS)

    def __call__(self, key: str, **values: object) -> str:
        """The sentence of a key, with its values in place."""
        table = next(table for table in self._tables if key in table)
        said = table[key].say(self.language).format(**values)
        if self.language == "zh":
            return _BETWEEN.sub("", _QUOTED.sub(r"\1", said))
        is_prose = said.endswith((".", ")"))
        return _BEGINNING.sub(lambda found: found[0].upper(), said) if is_prose else said

    def title(self, role: str) -> str:
        """The usual title of a role."""
        return TITLES[role].say(self.language)

    def quoted(self, token: str) -> str:
        """A token inside a sentence; what ends in a number (`input 2`) needs no marks."""
        return token if token[-1:].isdigit() else self("quoted", text=token)

    def listed(self, items: Sequence[str]) -> str:
        """Several things in a row: a, b and c."""
        if len(items) < 2:
            return "".join(items)
        return self("and").join((self("comma").join(items[:-1]), items[-1]))

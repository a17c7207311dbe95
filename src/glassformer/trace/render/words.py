"""What the renderers say, in English and Chinese. A test holds the two to the same keys."""

from __future__ import annotations

from collections.abc import Mapping

from glassformer.errors import UnknownNameError
from glassformer.trace.explanation import NOT_REPRODUCED
from glassformer.trace.formula import Phrases
from glassformer.trace.labels import Head
from glassformer.trace.notes import NOTES, Note

__all__ = ["LANGUAGES", "Words", "label_in", "meaning", "note_in", "phrases_in", "words_in"]

Words = Mapping[str, str]

_ENGLISH = {
    # what things are
    "parameter": "parameter",
    "input": "input",
    "activation": "computed",
    "constant": "constant",
    "output": "output",
    "parameters": "parameters",
    "inputs": "inputs",
    "steps": "{count} steps",
    "step": "step",
    "shape": "shape",
    "operator": "operator",
    "role": "role",
    "sheet": "sheet",
    "source": "source",
    "model": "model",
    # a cell
    "where": "where",
    "terms": "terms",
    "largest terms": "largest terms",
    "others": "{count} others",
    "value": "value",
    "stored": "stored ({dtype})",
    "recomputed": "recomputed in float64",
    "difference": "relative difference",
    "not reproduced": NOT_REPRODUCED,
    "unwritten": "not yet written: the memory holds whatever was there before",
    "no rule": "no rule for {op}: its arithmetic is not shown",
    "given": "given: nothing was computed here",
    "expanded": "written out in place of a fused operator",
    # matrices
    "more columns": "… {count} more columns",
    "more rows": "… {count} more rows",
    "slices": "slice {at} of {count}",
    "more slices": "… {count} more slices",
    "empty": "no numbers: a size is 0",
    "otherwise": "otherwise",
    "choice": "if {condition}: {yes}, else {no}",
    "head": "head {number}",
    # the page
    "title": "Every number of a model",
    "contents": "Contents",
    "notes": "notes",
    # the workbook
    "index": "Index",
    "frozen": "numbers only",
    "workbook title": "A model as a spreadsheet: change a number and watch",
    "workbook how": (
        "Coloured numbers may be changed; everything else is a formula over the cells it came from."
    ),
    "workbook live": (
        "Coloured inputs and parameters may be changed: everything computed is a formula and "
        "follows. The sentences tell of the numbers as they were."
    ),
    "workbook float64": (
        "The sheets compute in float64; the numbers stored with the formulas are those of "
        "the run (often float32), so the last digits may change on recalculation."
    ),
    "workbook infinity": (
        "−∞ stands as −{infinity} and NaN as #N/A: a spreadsheet has neither. exp(−∞) is 0, "
        "and a fully masked row gives 0."
    ),
    "workbook frozen": (
        "Steps marked “numbers only” cannot be written as formulas and do not change."
    ),
    # usual names of steps and operators, as the field calls them
    "term: queries": "queries",
    "term: keys": "keys",
    "term: values": "values",
    "term: projected_queries": "queries",
    "term: projected_keys": "keys",
    "term: projected_values": "values",
    "term: scores": "attention scores",
    "term: scaled": "scaled scores",
    "term: masked": "masked scores",
    "term: weights": "attention weights",
    "term: context": "weighted values",
    "term: joined": "heads joined",
    "term: logits": "logits",
    "term: probabilities": "probabilities",
    "term: embedded": "embeddings",
    "term: looked_up": "embeddings",
    "term: positions": "positions",
    "term: attention_sum": "residual sum",
    "term: feed_sum": "residual sum",
    "term: activated": "after the activation",
    "term: linear": "linear map",
    "term: matmul": "matrix product",
    "term: bmm": "matrix product",
    "term: mm": "matrix product",
    "term: addmm": "matrix product plus bias",
    "term: softmax": "softmax",
    "term: safe_softmax": "softmax, 0 where all is masked",
    "term: layer_norm": "layer norm",
    "term: rms_norm": "RMS norm",
    "term: embedding": "embedding look-up",
    "term: gelu": "GELU",
    "term: relu": "ReLU",
    "term: silu": "SiLU",
    "term: add": "addition",
    "term: sub": "subtraction",
    "term: mul": "product",
    "term: div": "division",
    "term: masked_fill": "masking",
    "term: where": "choice",
    "term: cat": "joined",
    "term: mean": "mean",
    "term: sum": "sum",
    # how the trace was made: said there
    **{f"note: {kind}": sentence for kind, sentence in NOTES.items()},
}

_CHINESE = {
    "parameter": "参数",
    "input": "输入",
    "activation": "计算所得",
    "constant": "常量",
    "output": "输出",
    "parameters": "参数",
    "inputs": "输入",
    "steps": "{count} 个步骤",
    "step": "步骤",
    "shape": "形状",
    "operator": "算子",
    "role": "类别",
    "sheet": "工作表",
    "source": "源代码",
    "model": "模型",
    "where": "其中",
    "terms": "各项",
    "largest terms": "最大的几项",
    "others": "其余 {count} 项",
    "value": "数值",
    "stored": "存储值（{dtype}）",
    "recomputed": "以 float64 重算",
    "difference": "相对误差",
    "not reproduced": "按此规则算不出存储的数值",
    "unwritten": "尚未写入，内存中是先前遗留的内容",
    "no rule": "算子 {op} 没有对应的规则，无法给出算式",
    "given": "给定的数，未经计算",
    "expanded": "融合算子的展开写法",
    "more columns": "…… 还有 {count} 列",
    "more rows": "…… 还有 {count} 行",
    "slices": "切片 {at}，共 {count} 个",
    "more slices": "…… 还有 {count} 个切片",
    "empty": "没有数：某一维的大小为 0",
    "otherwise": "否则",
    "choice": "若 {condition} 则 {yes}，否则 {no}",
    "head": "头 {number}",
    "title": "模型里的每一个数",
    "contents": "目录",
    "notes": "说明",
    "index": "目录",
    "frozen": "仅数值",
    "workbook title": "电子表格里的模型：改一个数，看结果怎样变",
    "workbook how": "有底色的数可以修改；其余都是公式，引用算出它的单元格。",
    "workbook live": (
        "有底色的输入和参数可以修改，计算所得都是公式，会随之更新；文字说明的是修改前的数值。"
    ),
    "workbook float64": (
        "表格以 float64 计算；随公式保存的是模型运行时的数值（多为 float32），重新计算后末几"
        "位可能略有变化。"
    ),
    "workbook infinity": (
        "电子表格没有 −∞ 和 NaN：这里分别用 −{infinity} 和 #N/A 表示。exp(−∞) 为 0，整行被掩"
        "码时结果为 0。"
    ),
    "workbook frozen": "标为“仅数值”的步骤无法写成公式，不会随之改变。",
    "term: queries": "查询",
    "term: keys": "键",
    "term: values": "值",
    "term: projected_queries": "查询",
    "term: projected_keys": "键",
    "term: projected_values": "值",
    "term: scores": "注意力分数",
    "term: scaled": "缩放后的分数",
    "term: masked": "加掩码后的分数",
    "term: weights": "注意力权重",
    "term: context": "加权求和后的值",
    "term: joined": "拼接各头",
    "term: logits": "logits（未归一化的得分）",
    "term: probabilities": "概率",
    "term: embedded": "词嵌入",
    "term: looked_up": "词嵌入",
    "term: positions": "位置",
    "term: attention_sum": "残差相加",
    "term: feed_sum": "残差相加",
    "term: activated": "经激活函数",
    "term: linear": "线性变换",
    "term: matmul": "矩阵乘法",
    "term: bmm": "矩阵乘法",
    "term: mm": "矩阵乘法",
    "term: addmm": "矩阵乘法加偏置",
    "term: softmax": "softmax",
    "term: safe_softmax": "softmax，整行被掩码时为 0",
    "term: layer_norm": "层归一化",
    "term: rms_norm": "RMS 归一化",
    "term: embedding": "嵌入查表",
    "term: gelu": "GELU",
    "term: relu": "ReLU",
    "term: silu": "SiLU",
    "term: add": "相加",
    "term: sub": "相减",
    "term: mul": "相乘",
    "term: div": "相除",
    "term: masked_fill": "掩码",
    "term: where": "按条件选择",
    "term: cat": "拼接",
    "term: mean": "平均值",
    "term: sum": "求和",
    "note: expanded": (
        "融合的注意力已展开为 scores、scaled、masked、weights、context；"
        "结果的末几位可能与融合算子不同"
    ),
    "note: evaluation": "模块处于训练模式，追踪时使用评估模式",
    "note: fast path": (
        "{name} 的 {all} 个单元格中有 {count} 个与 torch 在评估模式、不求梯度时的结果不同，"
        "位于 {places}（最大相差 {gap}，在 {worst}）：此时 torch 走快速路径，填充位置上留下 0；"
        "关闭快速路径后两者一致"
    ),
    "note: other numbers": (
        "{name} 的 {all} 个单元格中有 {count} 个与不追踪时的结果不同，位于 {places}"
        "（最大相差 {gap}，在 {worst}）：模块可能因自身状态、autocast 或专用算子而走了另一条路径"
    ),
    "note: other shape": (
        "{name} 在追踪中的形状为 {shown}，不追踪时为 {own}：模块因自身状态走了另一条路径"
    ),
    "note: fails alone": "不追踪时模块运行失败：{error}",
    "note: edited": "已修改：共 {all} 个算子，重新计算了 {count} 个",
    "note: another number": (
        "这次修改改变了模型自身的控制流（{place} 原为 {before}，现为 {after}），因此重新运行了模型"
    ),
    "note: another shape": (
        "这次修改改变了模型自身的控制流（{place} 的形状原为 {before}，现为 {after}），"
        "因此重新运行了模型"
    ),
    "note: same gradients": "梯度与 autograd 的结果逐位相同",
    "note: close gradients": (
        "梯度与 autograd 的结果相差不超过该张量最大值的 {worst}（{name} 处最大）"
    ),
    "note: same weights": "新权重与优化器的结果逐位相同",
    "note: close weights": (
        "新权重与优化器的结果相差不超过该张量最大变化量的 {worst}（{name} 处最大）"
    ),
    "note: rounding": (
        "{names} 的部分梯度因舍入而丢失有效位数：最大 {size}，其余梯度可达 {largest}；"
        "autograd 的求和次序不同，得到的数字也不同"
    ),
    "note: rounding steps": (
        "{names} 的部分梯度因舍入而丢失有效位数：最大 {size}，其余梯度可达 {largest}；"
        "{optimiser} 仍会据此走满一步，而求和次序一变方向就可能相反，"
        "因此这些新权重与优化器的结果最多相差 {gap}"
    ),
}

LANGUAGES: dict[str, Words] = {"en": _ENGLISH, "zh": _CHINESE}


def words_in(lang: str) -> Words:
    """The words of a language."""
    if lang not in LANGUAGES:
        raise UnknownNameError("language", lang, LANGUAGES)
    return LANGUAGES[lang]


def note_in(words: Words, note: str) -> str:
    """A trace's note in a language; a sentence of another's stays what it is."""
    return words[f"note: {note.kind}"].format(**note.values) if isinstance(note, Note) else note


def label_in(words: Words, label: str) -> str:
    """The label of a position: a head's in the language, a token's as it is."""
    return words["head"].format(number=label.number) if isinstance(label, Head) else label


def phrases_in(words: Words) -> Phrases:
    """The words that stand inside formulas."""
    return Phrases(words["others"], words["choice"], words["otherwise"])


def meaning(words: Words, name: str) -> str:
    """What a usual name of a step or operator means in the field; nothing for other names."""
    parts = [part for part in name.split(".") if not part.isdigit()]
    bare = parts[-1].lstrip("_") if parts else ""
    said = words.get(f"term: {bare}", "")
    return "" if said == bare else said

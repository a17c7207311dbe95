"""What the reports say, in both languages."""

from glassformer.documents.parts import Look
from glassformer.lessons.auditing.verdicts import Verdict
from glassformer.lessons.example import Bilingual

__all__ = ["LOOKS", "MARKS", "VERDICT_MEANINGS", "VERDICT_NAMES", "WORDS"]

VERDICT_NAMES: dict[Verdict, Bilingual] = {
    "agrees": Bilingual("agrees", "一致"),
    "wrong": Bilingual("wrong", "有误"),
    "follows": Bilingual("follows", "受前步影响"),
    "unchecked": Bilingual("unchecked", "未核对"),
    "given": Bilingual("given", "已知"),
}

VERDICT_MEANINGS: dict[Verdict, Bilingual] = {
    "agrees": Bilingual("right to the printed digits", "与印出的各位数字相符"),
    "wrong": Bilingual(
        "no value of its printed inputs gives these digits", "由印出的输入无法得到这些数字"
    ),
    "follows": Bilingual(
        "right from its printed inputs, but an earlier mistake shows in it",
        "由印出的输入计算无误，但带入了前面的错误",
    ),
    "unchecked": Bilingual("too little is printed to say", "印出的内容不足以核对"),
    "given": Bilingual("an input of the example", "例子的输入"),
}

MARKS: dict[Verdict, str] = {
    "agrees": "✓", "wrong": "✗", "follows": "↳", "unchecked": "?", "given": "·"
}  # fmt: skip

LOOKS: dict[Verdict, Look] = {
    "agrees": "good", "wrong": "bad", "follows": "caution", "unchecked": "quiet", "given": "quiet"
}  # fmt: skip

WORDS: dict[str, Bilingual] = {
    "audit": Bilingual("Audit", "核对"),
    "step": Bilingual("step", "步骤"),
    "title": Bilingual("title", "内容"),
    "formula": Bilingual("formula", "公式"),
    "verdict": Bilingual("verdict", "结论"),
    "finding": Bilingual("finding", "说明"),
    "wrong_numbers": Bilingual("What is wrong: printed → right", "有误之处：印出 → 正确"),
    "printed": Bilingual("printed", "印出"),
    "right": Bilingual("right", "正确"),
    "shape": Bilingual("of another length or shape", "长度或形状不符"),
    "cells": Bilingual("{wrong} of {shown} numbers", "{shown} 个数中有 {wrong} 个有误"),
    "off": Bilingual(
        "up to {off} away from what its inputs allow", "与输入所允许的值最多相差 {off}"
    ),
    "open": Bilingual("{open} could not be checked", "{open} 个无法核对"),
    "approximate": Bilingual(
        "approximate, as the text says: {off} of {shown} numbers are not rounded to the nearest",
        "原文注明为近似值：{shown} 个数中有 {off} 个没有舍入到最近的数",
    ),
    "because": Bilingual("because of {causes}", "源于 {causes}"),
    "nothing_wrong": Bilingual("Nothing is wrong.", "没有发现错误。"),
}

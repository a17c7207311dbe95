"""One training step of a small network: forward, gradients, update, and a smaller loss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from glassformer.lessons.example import Bilingual, Language
from glassformer.lessons.walks.lesson import Lesson, LessonStep, Paragraph, Part, formula
from glassformer.lessons.walks.phrases import Phrases, Speaker
from glassformer.lessons.walks.steps import heat_map
from glassformer.lessons.walks.textbook import number
from glassformer.nn.config import FeedForwardConfig
from glassformer.nn.layers import FeedForward
from glassformer.nn.shapes import Float, Tensor
from glassformer.trace import Cell, Trace
from glassformer.trace.training import trace_training_step

__all__ = ["PHRASES", "TITLE", "training_step"]

TITLE = Bilingual("Gradients and one training step", "梯度与一步训练")
PHRASES: Phrases = {
    "summary": Bilingual(
        "A network of two layers learns from one example: which number is to blame, and how far "
        "it moves.",
        "一个两层网络从一个样本中学习：误差该归咎于哪个参数，它又该移动多少。",
    ),
    "forward title": Bilingual("Forward", "前向计算"),
    "forward": Bilingual(
        "The feed-forward network of a Transformer, as small as can be: two numbers in, three "
        "hidden, two out. First a linear map; entry {place} is {linear}. Then ReLU, then a second "
        "linear map, whose entry {place} is {output}.",
        "Transformer 中的前馈网络，尽量做小：输入两个数，隐藏层三个数，输出两个数。先做线性变换，分"
        "量 {place} 是 {linear}；再经过 ReLU 和第二个线性变换，其分量 {place} 是 {output}。",
    ),
    "loss title": Bilingual("How wrong it is", "误差有多大"),
    "loss": Bilingual(
        "The output should have been {wanted}. The loss is the mean of the squared errors: "
        "{value}. Everything that follows asks one question: which change of which parameter "
        "makes this number smaller?",
        "期望的输出是 {wanted}。损失是误差平方的平均值：{value}。接下来只问一件事：改动哪个参数、怎"
        "样改动，能让这个数变小？",
    ),
    "error title": Bilingual("Backwards: from the loss to the output", "反向：从损失到输出"),
    "error": Bilingual(
        "The gradient of a number says by how much the loss grows when that number grows a little "
        "(∂ before a name). The error stands twice in error · error, and each time a share comes "
        "back. For entry {place} the shares add up to {value}: the output is too {direction}.",
        "一个数的梯度表示：这个数稍微变大时，损失随之变化多少（写作名字前加 ∂）。误差在 "
        "error · error 中出现两次，每次都传回一份梯度。分量 {place} 的两份之和是 {value}，说明输出"
        "偏{direction}。",
    ),
    "large": Bilingual("large", "大"),
    "small": Bilingual("small", "小"),
    "second title": Bilingual("The second layer's parameters", "第二层的参数"),
    "second": Bilingual(
        "A parameter multiplies what comes in, so its gradient is the gradient of the output "
        "times what came in. Where ReLU gave 0, nothing came in, and the gradient is 0.",
        "参数与输入相乘，所以它的梯度等于输出的梯度乘以输入。ReLU 输出为 0 的地方没有输入，梯度也就"
        "是 0。",
    ),
    "hidden title": Bilingual("Through ReLU to the first layer", "穿过 ReLU 回到第一层"),
    "hidden": Bilingual(
        "The hidden numbers get their gradients through the same parameters, backwards. ReLU lets "
        "a gradient pass where its number was positive and stops it elsewhere.",
        "隐藏层的数通过同样的参数反向得到梯度。ReLU 只让正数位置的梯度通过，其余位置截断为 0。",
    ),
    "update title": Bilingual("The step", "更新参数"),
    "update": Bilingual(
        "Each parameter moves against its gradient, {rate} times as far. This one goes from "
        "{before} to {after}.",
        "每个参数都沿梯度的反方向移动，步长是梯度的 {rate} 倍。这个参数从 {before} 变为 {after}。",
    ),
    "again title": Bilingual("Was it worth it?", "有效果吗？"),
    "again": Bilingual(
        "The same input once more, with the new parameters: the loss falls from {before} to "
        "{after}. Training is this step, many times, on many examples.",
        "用新参数把同一个输入再算一遍：损失从 {before} 降到 {after}。所谓训练，就是在许多样本上把这"
        "一步重复许多次。",
    ),
}
_RATE = 0.1
_X, _WANTED = (1.0, 2.0), (1.0, 0.0)
_W_1 = ((0.5, 0.2), (-0.4, -0.1), (0.1, 0.3))
_W_2 = ((0.3, -0.2, 0.4), (0.1, 0.5, -0.3))


@dataclass(frozen=True)
class _Both:
    """The step of the lesson, and the one after it."""

    first: Trace
    second: Trace


def _network() -> FeedForward:
    network = FeedForward(len(_X), FeedForwardConfig(d_ff=len(_W_1)))
    with torch.no_grad():
        for parameter in network.parameters():
            nn.init.zeros_(parameter)
        network.expand.weight.copy_(torch.tensor(_W_1))
        assert network.contract is not None
        network.contract.weight.copy_(torch.tensor(_W_2))
    return network


def _traced() -> _Both:
    network = _network()
    optimiser = torch.optim.SGD(network.parameters(), lr=_RATE)
    x, wanted = torch.tensor([[_X]]), torch.tensor([[_WANTED]])

    def squared_error(output: Float[Tensor, "B T D"]) -> Float[Tensor, ""]:
        error = output - wanted
        squared = error * error
        return squared.mean()

    def step() -> Trace:
        return trace_training_step(network, x, loss=squared_error, optimiser=optimiser)

    return _Both(step(), step())


def training_step(language: Language) -> Lesson:
    """The lesson."""
    say = Speaker(language, PHRASES)
    steps = tuple(_steps(say))
    return Lesson("training-step", TITLE.say(language), say("summary"), language, steps)


def _steps(say: Speaker) -> Iterator[LessonStep]:
    both = _traced()
    run = both.first
    yield from _forward_steps(run, say)
    error = run["gradients.error"][0]
    direction = say("small" if float(error.value) < 0 else "large")
    said = say("error", place=1, value=number(error.value), direction=direction)
    share = error.operands[0]
    yield _step("gradient", say("error title"), said, [share, error], ["gradients.error"], say)
    second = run["gradients.contract.weight"][0, 0]
    names = ["activated", "gradients.contract.weight"]
    yield _step("gradient", say("second title"), say("second"), [second], names, say)
    passed = [run["gradients.activated"][0], run["gradients.expanded"][0]]
    passed.append(run["gradients.expand.weight"][0, 1])
    names = ["gradients.expanded", "gradients.expand.weight"]
    yield _step("gradient", say("hidden title"), say("hidden"), passed, names, say)
    moved = run["update.contract.weight.weight"][0, 0]
    said = say(
        "update", rate=_RATE, before=number(run["contract.weight"][0, 0].value),
        after=number(moved.value),
    )  # fmt: skip
    names = ["contract.weight", "update.contract.weight.weight"]
    yield _step("update", say("update title"), said, [moved], names, say)
    after = both.second["loss"][()]
    said = say("again", before=number(run["loss"][()].value), after=number(after.value))
    yield _step("loss", say("again title"), said, [after], [], say)


def _forward_steps(run: Trace, say: Speaker) -> Iterator[LessonStep]:
    linear, output = run["expanded"][0], run["contracted"][0]
    said = say("forward", place=1, linear=number(linear.value), output=number(output.value))
    names = ["x", "expand.weight", "expanded", "activated", "contract.weight", "contracted"]
    cells = [linear, run["activated"][0], output]
    yield _step("feed-forward", say("forward title"), said, cells, names, say)
    wanted = say.listed([number(x) for x in _WANTED])
    said = say("loss", wanted=wanted, value=number(run["loss"][()].value))
    yield _step("loss", say("loss title"), said, [run["error"][0], run["loss"][()]], [], say)


def _step(
    role: str, title: str, said: str, cells: list[Cell], names: list[str], say: Speaker
) -> LessonStep:
    """Prose, the formulas of the cells, and the named steps, with the cells framed in them."""
    parts: list[Part] = [Paragraph(said), *(formula(cell) for cell in cells)]
    run = cells[0].step.trace
    for name in names:
        step = run[name]
        framed = next((cell for cell in cells if cell.step is step), None)
        parts.append(heat_map(step, say, framed))
    return LessonStep(role, title, tuple(parts))

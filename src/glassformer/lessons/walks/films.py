"""Films and tastes: what a dot product means, with features made by hand and then learned."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import torch
from torch import nn

from glassformer.lessons.example import Bilingual, Language
from glassformer.lessons.walks.figures.films import score_figure
from glassformer.lessons.walks.figures.maps import Axes, Point, draw_map
from glassformer.lessons.walks.figures.words import FIGURE_WORDS
from glassformer.lessons.walks.lesson import (
    Figure,
    Formula,
    Lesson,
    LessonStep,
    Paragraph,
    Part,
    Table,
)
from glassformer.lessons.walks.naming import number
from glassformer.lessons.walks.phrases import Phrases, Speaker
from glassformer.lessons.walks.steps import heat_map, percent
from glassformer.nn.properties.studies import Tastes, learn_tastes
from glassformer.nn.shapes import Float, Int, Tensor
from glassformer.trace import Trace, trace

__all__ = ["FILMS", "PHRASES", "TITLE", "films"]

TITLE = Bilingual("Films and tastes: the dot product", "影片与喜好：点积的含义")
PHRASES: Phrases = {
    "summary": Bilingual(
        "A score from features made by hand; then features learned from likes alone, their map, "
        "and recommendations.",
        "先用手工设定的特征打分，再只凭“喜欢与否”学出特征，画成地图并作推荐。",
    ),
    "features title": Bilingual("Features made by hand", "手工设定的特征"),
    "features": Bilingual(
        "A film gets a number for each of three features: how much romance, action and comedy is "
        "in it, negative where there is the opposite. A person gets three numbers, too: how much "
        "she or he wants of each.",
        "为每部影片的三个特征各定一个数：爱情、动作、喜剧各有多少，负数表示恰好相反。每个人也有三个"
        "数：对这三样各喜欢多少。",
    ),
    "score title": Bilingual("The score is a dot product", "得分就是点积"),
    "score": Bilingual(
        "Each feature is multiplied by the taste for it, and the products are added: {person} and "
        "“{film}” have {value}. Equal signs add, opposite signs take away, and large numbers count "
        "for more. In attention, queries and keys are compared in exactly this way.",
        "每个特征乘以对它的喜好，再把乘积相加：{person} 与《{film}》的得分是 {value}。符号相同就加"
        "分，符号相反就减分，数值越大影响越大。注意力中查询与键的比较，用的正是同一种方法。",
    ),
    "learned title": Bilingual("Nobody writes the features down", "没有人来写这些特征"),
    "learned": Bilingual(
        "Now forget the features. {people} people say of some of the films whether they like "
        "them, {known} of all answers. Each film and each person gets two random numbers, and "
        "training changes them until their products have the sign of the known answers. Of the "
        "answers that it never saw, it then guesses {guessed} right.",
        "现在把特征忘掉。{people} 个人对其中一部分影片说出喜欢与否，占全部回答的 {known}。给每部影"
        "片和每个人各两个随机数，训练时不断调整，直到它们的点积与已知回答的符号一致。对于从未见过的"
        "回答，它能猜对 {guessed}。",
    ),
    "map title": Bilingual("A map of the films", "影片地图"),
    "map": Bilingual(
        "The two learned numbers of a film are a place on a map. Films of one kind stand "
        "together, though the model never saw a kind: {explained} of what we know about them can "
        "be read from the two numbers.",
        "每部影片学到的两个数，就是它在地图上的位置。同类影片聚在一起，而模型从未见过类别：我们所知"
        "道的内容，有 {explained} 可以从这两个数读出。",
    ),
    "recommend title": Bilingual("What to see next", "接下来看什么"),
    "recommend": Bilingual(
        "For {person} the films without an answer are sorted by their learned score. The last "
        "column shows the score by the features made by hand, which the model does not know.",
        "对 {person}，把还没有回答的影片按学到的得分排序。最后一列是按手工特征算出的得分，模型并不"
        "知道它。",
    ),
    "romance": Bilingual("romance", "爱情"),
    "action": Bilingual("action", "动作"),
    "comedy": Bilingual("comedy", "喜剧"),
    "film": Bilingual("film", "影片"),
    "person": Bilingual("person", "人"),
    "learned score": Bilingual("learned score", "学到的得分"),
    "true score": Bilingual("score by hand-made features", "手工特征的得分"),
    "films caption": Bilingual("films", "影片"),
    "people caption": Bilingual("people", "人"),
    "scores caption": Bilingual("scores", "得分"),
}
_FEATURES = ("romance", "action", "comedy")
# Title, romance, action, comedy: our own guesses, from −1 to 1.
FILMS: tuple[tuple[Bilingual, tuple[float, float, float]], ...] = (
    (Bilingual("Titanic", "泰坦尼克号"), (0.9, 0.2, -0.5)),
    (Bilingual("Casablanca", "卡萨布兰卡"), (0.9, -0.2, -0.4)),
    (Bilingual("Before Sunrise", "爱在黎明破晓前"), (1.0, -0.9, 0.0)),
    (Bilingual("Notting Hill", "诺丁山"), (0.8, -0.8, 0.7)),
    (Bilingual("Roman Holiday", "罗马假日"), (0.8, -0.6, 0.6)),
    (Bilingual("Some Like It Hot", "热情如火"), (0.4, -0.2, 1.0)),
    (Bilingual("Airplane!", "空前绝后满天飞"), (-0.4, -0.2, 1.0)),
    (Bilingual("Modern Times", "摩登时代"), (0.1, -0.3, 1.0)),
    (Bilingual("Rush Hour", "尖峰时刻"), (-0.7, 0.8, 0.8)),
    (Bilingual("True Lies", "真实的谎言"), (0.1, 0.9, 0.5)),
    (Bilingual("Die Hard", "虎胆龙威"), (-0.5, 1.0, -0.1)),
    (Bilingual("Speed", "生死时速"), (0.0, 1.0, -0.4)),
    (Bilingual("Terminator 2", "终结者 2"), (-0.7, 1.0, -0.4)),
    (Bilingual("The Matrix", "黑客帝国"), (-0.1, 0.9, -0.7)),
)
_PEOPLE: dict[str, tuple[float, float, float]] = {"Ada": (0.8, -0.6, 0.5), "Ben": (-0.4, 0.9, 0.3)}
_ADA, _SHOWN_FILM = 0, 0
_N_OTHERS = 118


class _Scores(nn.Module):
    """What every person gives every film: tastes times features."""

    def __init__(self, people: Float[Tensor, "P N"], films: Float[Tensor, "M N"]) -> None:
        super().__init__()
        self.people = nn.Parameter(people)
        self.films = nn.Parameter(films)

    def forward(self, chosen: Int[Tensor, " P"]) -> Float[Tensor, "P M"]:
        """Scores of some people for all films."""
        tastes = self.people[chosen]
        scores = tastes @ self.films.mT
        return scores


def films(language: Language) -> Lesson:
    """The lesson."""
    say = Speaker(language, PHRASES)
    return Lesson("films", TITLE.say(language), say("summary"), language, tuple(_steps(say)))


@lru_cache(maxsize=1)
def _learned() -> Tastes:
    """Likes of Ada, Ben and others, whose tastes are random."""
    content = torch.tensor([features for _, features in FILMS])
    others = torch.randn(_N_OTHERS, len(_FEATURES), generator=torch.Generator().manual_seed(0))
    tastes = torch.cat([torch.tensor(list(_PEOPLE.values())), others])
    return learn_tastes(content, tastes=tastes, chance=0.2, steps=300)


def _run(people: Tensor, features: Tensor) -> Trace:
    chosen = torch.arange(len(_PEOPLE))
    return trace(_Scores(people, features), chosen, axis_labels={"chosen": list(_PEOPLE)})


def _steps(say: Speaker) -> Iterator[LessonStep]:
    titles = tuple(title.say(say.language) for title, _ in FILMS)
    features = torch.tensor([numbers for _, numbers in FILMS])
    run = _run(torch.tensor(list(_PEOPLE.values())), features)
    names = tuple(say(name) for name in _FEATURES)
    maps = [
        heat_map(run["films"], say, rows=titles, columns=names, title=say("films caption")),
        heat_map(run["people"], say, rows=tuple(_PEOPLE), columns=names,
                 title=say("people caption")),
    ]  # fmt: skip
    yield LessonStep("inputs", say("features title"), (Paragraph(say("features")), *maps))
    yield _score(run, titles, names, say)
    learned = _learned()
    yield _learned_step(learned, say)
    yield _map_step(learned, titles, say)
    yield _recommend(learned, run, titles, say)


def _score(run: Trace, titles: tuple[str, ...], names: tuple[str, ...], say: Speaker) -> LessonStep:
    cell = run["scores"][_ADA, _SHOWN_FILM]
    person, film = tuple(_PEOPLE)[_ADA], titles[_SHOWN_FILM]
    drawing = score_figure(run, _SHOWN_FILM, _ADA, (film, person), names, say.language)
    parts: list[Part] = [
        Paragraph(say("score", person=person, film=film, value=number(cell.value))),
        Figure("score", drawing),
        Formula(cell),
        heat_map(run["scores"], say, cell, rows=tuple(_PEOPLE), columns=titles,
                 title=say("scores caption")),
    ]  # fmt: skip
    return LessonStep("scores", say("score title"), tuple(parts))


def _learned_step(learned: Tastes, say: Speaker) -> LessonStep:
    known = float(learned.known.double().mean())
    said = say(
        "learned", people=len(learned.people), known=percent(known),
        guessed=percent(learned.guessed),
    )  # fmt: skip
    return LessonStep("training", say("learned title"), (Paragraph(said),))


def _map_step(learned: Tastes, titles: tuple[str, ...], say: Speaker) -> LessonStep:
    """Each film at its two learned features, in the colour of its largest feature by hand."""
    words = Speaker(say.language, FIGURE_WORDS)
    kinds = [_FEATURES[features.index(max(features))] for _, features in FILMS]
    points = [
        Point(float(x), float(y), title, say(kind))
        for (x, y), title, kind in zip(learned.films, titles, kinds, strict=True)
    ]
    axes = Axes(words("first feature"), words("second feature"))
    drawing = draw_map(words("map figure"), points, axes, width=820, height=520)
    rows = tuple(
        (title, number(float(x), 3), number(float(y), 3))
        for (x, y), title in zip(learned.films, titles, strict=True)
    )
    table = Table("", (say("film"), axes.across, axes.up), rows)
    said = Paragraph(say("map", explained=percent(learned.explained)))
    return LessonStep("map", say("map title"), (said, Figure("map", drawing), table))


def _recommend(learned: Tastes, run: Trace, titles: tuple[str, ...], say: Speaker) -> LessonStep:
    guessed = _run(learned.people, learned.films)["scores"]
    unseen = [place for place in range(len(titles)) if not learned.known[_ADA, place]]
    unseen.sort(key=lambda place: -float(guessed.value[_ADA, place]))
    rows = tuple(
        (titles[place], number(float(guessed.value[_ADA, place]), 3),
         number(float(run["scores"].value[_ADA, place]), 3))
        for place in unseen
    )  # fmt: skip
    heads = (say("film"), say("learned score"), say("true score"))
    parts: list[Part] = [
        Paragraph(say("recommend", person=tuple(_PEOPLE)[_ADA])),
        Formula(guessed[_ADA, unseen[0]]),
        Table("", heads, rows),
    ]
    return LessonStep("recommend", say("recommend title"), tuple(parts))

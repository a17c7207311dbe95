"""Films and tastes: what a dot product means, with features made by hand and then learned."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import torch
from torch import nn

from glassformer.lessons.example import Bilingual, Language
from glassformer.lessons.walks.figures.maps import Axes, Point, draw_map
from glassformer.lessons.walks.figures.model_figures import score_figure
from glassformer.lessons.walks.figures.words import FIGURE_WORDS
from glassformer.lessons.walks.lesson import (
    Figure,
    Lesson,
    LessonStep,
    Paragraph,
    Part,
    Table,
    formula,
)
from glassformer.lessons.walks.phrases import Phrases, Speaker
from glassformer.lessons.walks.steps import heat_map, percent
from glassformer.lessons.walks.textbook import number
from glassformer.nn.properties.studies import Tastes, learn_tastes
from glassformer.nn.shapes import Float, Int, Tensor
from glassformer.trace import Trace, trace

__all__ = ["FILMS", "PHRASES", "TITLE", "films"]

TITLE = Bilingual("Films and tastes: the dot product", "影片与喜好：点积的含义")
PHRASES: Phrases = {
    "summary": Bilingual(
        "A score from features made by hand; then features learned from the likes of an invented "
        "audience, their map, what real ratings show, and recommendations.",
        "先用手工设定的特征打分；再只凭虚构观众的“喜欢与否”学出特征，画成地图；看看真实评分的结果，"
        "最后作推荐。",
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
        "Can features be found from likes alone? To know what there is to find, the audience is "
        "invented: {people} people, Ada and Ben among them, the others with random tastes. Whether "
        "somebody likes a film we drew from the table above: taste times features, plus a little "
        "chance. The model sees neither the table nor the tastes, only {known} of the answers. "
        "Each film and each person gets two random numbers, and training changes them until their "
        "products have the sign of the known answers. Of the answers that it never saw, it then "
        "guesses {guessed} right.",
        "只凭喜欢与否，能找出特征吗？为了知道应该找到什么，这里的观众是虚构的：共 {people} 个人，包"
        "括 Ada 和 Ben，其余的人喜好随机。谁喜欢哪部影片，是我们按上面的表抽出来的：喜好乘以特征，"
        "再加一点偶然。模型看不到表，也看不到喜好，只看到 {known} 的回答。给每部影片和每个人各两个"
        "随机数，训练时不断调整，直到它们的点积与已知回答的符号一致。对于从未见过的回答，它能猜对 "
        "{guessed}。",
    ),
    "map title": Bilingual("A map of the films", "影片地图"),
    "map": Bilingual(
        "The two learned numbers of a film are a place on a map. Films of one kind stand "
        "together, though the model never saw a kind: a linear map of the two numbers explains "
        "{explained} of the variance in the table of features. The control: when each person's "
        "likes are dealt out to the films at random, so that there is nothing to find, it is "
        "{control} (two numbers for fourteen films always explain something). That content is "
        "found here is no wonder, since the likes were drawn from this very table: it shows that "
        "the method works, not how people are.",
        "每部影片学到的两个数，就是它在地图上的位置。同类影片聚在一起，而模型从未见过类别：由这两个"
        "数作线性映射，可以解释特征表中 {explained} 的方差。对照：如果把每个人的喜好随机分给各部影"
        "片，本来就没有什么可找，则只有 {control}（十四部影片各有两个数，总能凑巧解释一点）。这里能"
        "找到内容并不奇怪，因为喜好正是按这张表抽出来的：这说明方法有效，并不说明真人如此。",
    ),
    "real title": Bilingual("And with real people?", "换成真人呢？"),
    "real": Bilingual(
        "MovieLens has {ratings} ratings by {people} real people. From these alone, without any "
        "genre, a model learned 64 numbers for each film. Can the genre be read from them? A "
        "linear map is fitted to four fifths of the {films} films rated most often and asked about "
        "the others. Shown one film that has the genre and one that has not, it picks the right "
        "one in {mean} of the cases, on average over {genres} genres; guessing gives 50 %, genres "
        "dealt out at random {control}. So learned features do reflect content, but only in part, "
        "and some genres ({best}) much more than others ({worst}).",
        "MovieLens 有 {people} 位真人的 {ratings} 条评分。模型只凭这些评分，不看任何类型，为每部影"
        "片学出 64 个数。能从中读出影片类型吗？在评分最多的 {films} 部影片中，用五分之四拟合一个线"
        "性映射，再用其余的检验。给它看一部属于该类型和一部不属于该类型的影片，{genres} 个类型平均"
        "有 {mean} 选对；瞎猜是 50 %，把类型随机打乱后是 {control}。可见学到的特征确实反映内容，但"
        "只是一部分，而且有的类型（{best}）比别的（{worst}）明显得多。",
    ),
    "real source": Bilingual(
        "Measured by {command} on {date}; data: MovieLens ml-latest-small, F. M. Harper and "
        "J. A. Konstan, 2015.",
        "由 {command} 于 {date} 测得；数据：MovieLens ml-latest-small，F. M. Harper 与 J. A. "
        "Konstan，2015。",
    ),
    "genre": Bilingual("genre", "类型"),
    "genre Action": Bilingual("action", "动作"),
    "genre Adventure": Bilingual("adventure", "冒险"),
    "genre Animation": Bilingual("animation", "动画"),
    "genre Children": Bilingual("children's", "儿童"),
    "genre Comedy": Bilingual("comedy", "喜剧"),
    "genre Crime": Bilingual("crime", "犯罪"),
    "genre Drama": Bilingual("drama", "剧情"),
    "genre Fantasy": Bilingual("fantasy", "奇幻"),
    "genre Mystery": Bilingual("mystery", "悬疑"),
    "genre Romance": Bilingual("romance", "爱情"),
    "genre Sci-Fi": Bilingual("science fiction", "科幻"),
    "genre Thriller": Bilingual("thriller", "惊悚"),
    "picked right": Bilingual("picked right", "选对"),
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


@lru_cache(maxsize=2)
def _learned(*, shuffled: bool = False) -> Tastes:
    """Likes of Ada, Ben and others, whose tastes are random; `shuffled` is the control."""
    content = torch.tensor([features for _, features in FILMS])
    others = torch.randn(_N_OTHERS, len(_FEATURES), generator=torch.Generator().manual_seed(0))
    tastes = torch.cat([torch.tensor(list(_PEOPLE.values())), others])
    return learn_tastes(content, tastes=tastes, chance=0.2, shuffled=shuffled, steps=300)


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
    yield _real(say)
    yield _recommend(learned, run, titles, say)


def _score(run: Trace, titles: tuple[str, ...], names: tuple[str, ...], say: Speaker) -> LessonStep:
    cell = run["scores"][_ADA, _SHOWN_FILM]
    person, film = tuple(_PEOPLE)[_ADA], titles[_SHOWN_FILM]
    drawing = score_figure(run, _SHOWN_FILM, _ADA, (film, person), names, say.language)
    parts: list[Part] = [
        Paragraph(say("score", person=person, film=film, value=number(cell.value))),
        Figure("score", drawing),
        formula(cell),
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
    control = percent(_learned(shuffled=True).explained)
    said = Paragraph(say("map", explained=percent(learned.explained), control=control))
    return LessonStep("map", say("map title"), (said, Figure("map", drawing), table))


def _real(say: Speaker) -> LessonStep:
    """The same question put to real ratings: stored figures, which need data that is not ours."""
    # Here, because the claims bring training along, which no other step of a lesson needs.
    from glassformer.lessons.claims.group import stored_results

    (measured,), (by_genre,) = stored_results("movielens"), stored_results("movielens genres")
    figures, read = measured.figures, by_genre.figures
    order = sorted(read, key=lambda genre: -read[genre])
    names = [say(f"genre {genre}") for genre in order]
    said = say(
        "real", ratings=f"{figures['ratings']:,}", people=figures["people"],
        films=figures["films"], genres=figures["genres"], mean=percent(figures["mean"]),
        control=percent(figures["control"]), best=names[0], worst=names[-1],
    )  # fmt: skip
    table = Table(
        "", (say("genre"), say("picked right")),
        tuple((name, percent(read[genre])) for name, genre in zip(names, order, strict=True)),
    )  # fmt: skip
    source = say("real source", command=measured.command, date=measured.date)
    return LessonStep("real", say("real title"), (Paragraph(said), table, Paragraph(source)))


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
        formula(guessed[_ADA, unseen[0]]),
        Table("", heads, rows),
    ]
    return LessonStep("recommend", say("recommend title"), tuple(parts))

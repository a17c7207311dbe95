"""B: properties to demonstrate, and R: the recommender."""

from __future__ import annotations

from benchmarks.systems.checked_rows import Measured, check, figures, lesson, percent, small
from glassformer.claims.attention_studies import learn_roles
from glassformer.claims.costs import least_embedding_size
from glassformer.claims.properties import path_length
from glassformer.documents.parts import Figure, Table, plain
from glassformer.lessons.films import FILMS, learn_films


@check("B01")
def _equivariance() -> Measured:
    f = figures("C04")
    said = f"difference {small(f['gap'])}; order changes outputs by {f['moved']:.2f}"
    return said, f["gap"] < 1e-5 < f["moved"]


@check("B02")
def _blind() -> Measured:
    f = figures("C06")
    said = f"change without positions {small(f['without'])}, with positions {f['with']:.3f}"
    return said, f["without"] < 1e-5 and f["with"] > 0.01


@check("B03")
def _mixing() -> Measured:
    f = figures("C09")
    said = f"attention {f['attention']}, others {f['others']} of 3, attention zeroed {f['silent']}"
    return said, f["attention"] and not f["others"] and not f["silent"]


@check("B04")
def _repeated() -> Measured:
    f = figures("C12")
    said = f"differences {f['embedding']:g} and {small(f['output'])}"
    return said, f["embedding"] == 0 and f["output"] < 1e-6


@check("B05")
def _related() -> Measured:
    f = figures("C13")
    asked, place = f["decayed_noun_verb_least"], f["decayed_noun_place_most"]
    said = (
        f"{f['seeds']} seeds: noun · verb at least {asked:.1f}, noun · place at most {place:.1f}, "
        f"“the” at most {f['decayed_the_most']:.1f} and {f['decayed_the']:.1f} on average"
    )
    return said, asked > 1 and asked > 2 * max(place, f["decayed_the_most"]) and f[
        "decayed_the"
    ] < 0


@check("B06")
def _roses() -> Measured:
    blind = learn_roles(2, "none").giver_and_receiver
    one = max(learn_roles(1, "in scores", seed=seed).giver_and_receiver for seed in range(3))
    f, added = figures("C39"), figures("C38")["added"]
    said = (
        f"giver and receiver right: without positions {percent(blind)}, one head at most "
        f"{percent(one)} (3 seeds), two heads {percent(f['both'])}; one head with positions added "
        f"to the words {percent(added)}"
    )
    return said, blind < 0.2 and one < 0.5 and f["both"] > 0.95


@check("B07")
def _parameters() -> Measured:
    f = figures("C42")
    said = f"one head {f['one']:,}, four narrow {f['narrow']:,}, W_O {f['output']:,}"
    return said, (f["one"], f["narrow"], f["output"]) == (196_608, 196_608, 65_536)


@check("B08")
def _cost() -> Measured:
    f = figures("C40")
    said = f"multiply-adds: wide {f['wide']:.2f} times, narrow {f['narrow']:.2f} times those of one"
    return said, abs(f["wide"] - f["heads"]) < 0.01 and abs(f["narrow"] - 1) < 0.01


@check("B09")
def _resolution() -> Measured:
    f = figures("C46")
    said = f"error of one head {f['one']:.3f} (bound {f['bound']:g}), of two {small(f['two'])}"
    return said, f["one"] > f["bound"] * 0.98 and f["two"] < 0.01


@check("B10")
def _parallel() -> Measured:
    steps, order, timed = figures("C91"), figures("C92"), figures("C70")
    said = (
        f"{steps['attention']:.0f} against {steps['recurrence']:.0f} steps over "
        f"{steps['positions']} positions ({path_length('recurrence', 512)} over 512 tokens); "
        f"computed from last to first: difference {small(order['order_gap'])}; an epoch of an LSTM "
        f"takes {timed['ratio']:.1f} times as long"
    )
    right = steps["attention"] == 1 and steps["recurrence"] == steps["positions"] - 1
    return said, right and order["order_gap"] < 1e-5 and timed["ratio"] > 1


@check("B11")
def _connectivity() -> Measured:
    f = figures("C10")
    said = (
        f"attention ignores {f['unread']} of 64 × 64 pairs; multiply-adds {f['attention']:,} "
        f"(convolution {f['convolution']:,}, dense {f['dense']:,})"
    )
    return said, f["unread"] == 0 and f["convolution"] < f["attention"] < f["dense"]


@check("B12")
def _position_wise() -> Measured:
    f = figures("C56")
    said = f"joins positions: {f['joins']}; each vector alone: difference {small(f['gap'])}"
    return said, not f["joins"] and f["gap"] < 1e-6


@check("B13")
def _depth() -> Measured:
    f = figures("C53")
    said = (
        f"right: both {percent(f['both'])}, no norm {percent(f['no_norm'])}, "
        f"no residual {percent(f['no_residual'])} (chance 12.5 %)"
    )
    return said, f["both"] > 0.95 and f["both"] > f["no_norm"] + 0.2 > f["no_residual"] + 0.3


@check("B14")
def _width() -> Measured:
    f = figures("C54")
    shares = [f["less_hard"], f["k_hard"], f["wide_hard"]]
    listed = ", ".join(map(percent, shares))
    said = f"learned by heart {listed}; an easy task at k/4 {percent(f['less_easy'])}"
    return said, shares == sorted(shares) and shares[2] > shares[0] + 0.1 and f["less_easy"] > 0.99


@check("B15")
def _embedding_size() -> Measured:
    f, size = figures("C67"), least_embedding_size(23)
    said = f"{size:.1f}; derived {f['derived']:.3f}"
    return said, f"{size:.1f}" == "26.1" and f"{f['derived']:.3f}" == "8.312"


@check("B16")
def _tokens_per_word() -> Measured:
    f = figures("C96")
    said = (
        f"words per token: everyday English {f['everyday']:.2f}, learned English {f['learned']:.2f}"
    )
    return said, f["learned"] < 0.75 < f["everyday"]


# --- R ---


def _films_table(place: int, head: str) -> list[str]:
    """A column of a table of the lesson films, from its step."""
    (table,) = [part for part in lesson("films").steps[place].parts if isinstance(part, Table)]
    column = [plain(name) for name in table.heads].index(head)
    return [plain(row[column]) for row in table.rows]


@check("R01")
def _features() -> Measured:
    f = figures("C14")
    said = f"scores {f['same']:+.1f} and {f['opposite']:+.1f}, ratio {f['ratio']:.1f}"
    return said, f["same"] > 0 > f["opposite"] and abs(f["ratio"] - 2) < 0.01


@check("R02")
def _learned_features() -> Measured:
    found = learn_films()
    known = float(found.known.double().mean())
    said = f"from {percent(known)} of the likes: {percent(found.guessed)} of the others right"
    return said, found.guessed > 0.7


@check("R03")
def _meaning() -> Measured:
    f = figures("C15")
    said = (
        f"invented: {percent(f['noisy'])} of the content explained, shuffled "
        f"{percent(f['control'])}; MovieLens genres {percent(f['genres'])} of pairs, "
        f"shuffled {percent(f['genres_control'])}"
    )
    real = f["genres"] > 0.65 and abs(f["genres_control"] - 0.5) < 0.03
    return said, f["noisy"] > 0.8 and f["control"] < 0.2 and real


@check("R04")
def _map() -> Measured:
    (drawn,) = [
        part for part in lesson("films").parts() if isinstance(part, Figure) and part.name == "map"
    ]
    labelled = sum(drawn.drawing.svg().count(f">{title}</text>") == 1 for title in FILMS)
    return f"{labelled} of {len(FILMS)} films labelled once", labelled == len(FILMS)


@check("R05")
def _recommended() -> Measured:
    films = _films_table(5, "film")
    learned = [float(x.replace("−", "-")) for x in _films_table(5, "learned score")]
    by_hand = [float(x.replace("−", "-")) for x in _films_table(5, "score by hand-made features")]
    pairs = [(i, j) for i in range(len(films)) for j in range(i)]
    agree = sum((by_hand[j] - by_hand[i]) > 0 for i, j in pairs)
    said = f"first “{films[0]}”; {agree} of {len(pairs)} pairs in the order of the hidden features"
    return said, learned == sorted(learned, reverse=True) and agree > 0.8 * len(pairs)

"""Who gave what to whom? "mary gave roses to susan", read off the output of "gave".

The text says that one head mixes giver and receiver in y_gave, and that several heads can keep
them apart. Here linear maps read giver, gift and receiver from y_gave, and three things decide:

- No positions: the sentence is a set. y_gave is the same for "mary gave roses to susan" and "susan
  gave roses to mary", with any number of heads: roles need positions (or knowledge of the names).
- Positions decide the scores, words the values: one head gives a V x_giver + b V x_receiver + …,
  with the same a and b for all names. Let R_n score name n as receiver, and h(n, m) = R_n · V x_m.
  That R prefers r to g in (g, r), and g to r in (r, g), needs (b − a) (d_rg + d_gr) > 0, where
  d_rg = h(r, r) − h(g, r); that it prefers r to t in (g, r), and t to r in (g, t), needs
  b (d_rt + d_tr) > 0. With three names or more, b > a; for the giver, alike, a > b. No linear map
  reads both from one head. Two heads put them into different parts of y, and it is easy.
- Positions added to words, as in a Transformer: the weights depend on the names and the values on
  the positions, the argument fails, and one head can learn a code that tells the two apart: of two
  names it looks mostly at one, and how the weight is divided tells who the other is. With the same
  average weights in every sentence the code is gone. There the text's "mixed" is how it begins, not
  what training must leave it with (nor what it always leaves behind: some starts stay mixed).
"""

from dataclasses import dataclass
from itertools import permutations, product
from typing import Literal

import torch
import torch.nn.functional as F
from torch import nn

from glassformer.nn.attention import Attended, attend_written, join_heads, split_heads
from glassformer.nn.properties.studies.training import accuracy, fit, seeded
from glassformer.nn.shapes import Bool, Float, Int, Tensor

Positions = Literal["none", "in scores", "added"]

ROLE_NAMES = ("mary", "susan", "john", "peter", "anna")
_GIFTS = ("roses", "books", "bread")
_WORDS = (*ROLE_NAMES, *_GIFTS, "gave", "to")
_GIVER_AT, _GAVE_AT, _GIFT_AT, _RECEIVER_AT = 0, 1, 2, 4
_N_POSITIONS = 5
ROLE_SENTENCE = ("mary", "gave", "roses", "to", "susan")


@dataclass(frozen=True)
class RoleReading:
    """What can be read from y_gave after training."""

    n_heads: int
    positions: Positions
    giver: float
    """Share of sentences in which the giver is read correctly."""
    gift: float
    receiver: float
    giver_and_receiver: float
    """Share of sentences in which both are."""
    weights: Float[Tensor, "H T"]
    """What each head of "gave" attends to in "mary gave roses to susan"."""
    change_when_swapped: float
    """Largest change of y_gave when mary and susan change places."""
    giver_by_average: float
    """Share of givers still read correctly when "gave" has its average weights everywhere."""
    receiver_by_average: float
    model: "RoleReader"
    """What was trained, to look inside."""
    ids: Int[Tensor, "1 T"]
    """"mary gave roses to susan", as the model takes it."""

    @torch.no_grad()
    def weights_in(self, sentence: tuple[str, ...]) -> list[float]:
        """What the first head of "gave" attends to in another sentence of these words."""
        weights: list[float] = self.model.attend(_encode(sentence)).weights[0, 0, _GAVE_AT].tolist()
        return weights


class RoleReader(nn.Module):
    """One attention layer, and three linear maps that read its output at "gave"."""

    def __init__(self, n_heads: int, d_model: int, positions: Positions) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.positions = positions
        self.word_table = nn.Embedding(len(_WORDS), d_model)
        self.position_table = nn.Embedding(_N_POSITIONS, d_model)
        for table in (
            self.word_table,
            self.position_table,
        ):  # small: every head starts by looking everywhere
            nn.init.normal_(table.weight, std=0.25)
        self.to_queries = nn.Linear(d_model, d_model, bias=False)
        self.to_keys = nn.Linear(d_model, d_model, bias=False)
        self.to_values = nn.Linear(d_model, d_model, bias=False)
        self.to_giver = nn.Linear(d_model, len(ROLE_NAMES))
        self.to_gift = nn.Linear(d_model, len(_GIFTS))
        self.to_receiver = nn.Linear(d_model, len(ROLE_NAMES))

    def attend(self, ids: Int[Tensor, "B T"]) -> Attended:
        """Attention from every position, (B, H, T, E)."""
        words = self.word_table(ids)
        positions = self.position_table.weight.expand_as(words)
        seen = {"none": words, "in scores": positions, "added": words + positions}[self.positions]
        queries, keys = (
            split_heads(part(seen), self.n_heads) for part in (self.to_queries, self.to_keys)
        )
        values = self.values(ids)
        return attend_written(queries, keys, values)

    def output_of_gave(
        self, ids: Int[Tensor, "B T"], *, average: bool = False
    ) -> Float[Tensor, "B D"]:
        """y_gave, the heads side by side; `average` gives every sentence the same weights."""
        attended = self.attend(ids)
        if not average:
            return join_heads(attended.context)[:, _GAVE_AT]
        weights = attended.weights[:, :, [_GAVE_AT]].mean(dim=0, keepdim=True)
        return join_heads(weights @ self.values(ids))[:, 0]

    def values(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B H T E"]:
        """What is passed on from each position."""
        words = self.word_table(ids)
        added = self.position_table.weight if self.positions == "added" else 0.0
        return split_heads(self.to_values(words + added), self.n_heads)

    def forward(self, ids: Int[Tensor, "B T"]) -> tuple[Tensor, Tensor, Tensor]:
        """Logits of giver, gift and receiver."""
        output = self.output_of_gave(ids)
        return self.to_giver(output), self.to_gift(output), self.to_receiver(output)


def learn_roles(
    n_heads: int,
    positions: Positions,
    *,
    d_model: int = 16,
    steps: int = 250,
    seed: int = 0,
) -> RoleReading:
    """Train on all sentences of five names and three gifts; the width is shared by the heads."""
    ids = _all_sentences()
    answers = (ids[:, _GIVER_AT], ids[:, _GIFT_AT] - len(ROLE_NAMES), ids[:, _RECEIVER_AT])
    with seeded(seed):
        model = RoleReader(n_heads, d_model, positions)

    def loss() -> Tensor:
        readings = zip(model(ids), answers, strict=True)
        return torch.stack([F.cross_entropy(*reading) for reading in readings]).sum()

    fit(model.double().parameters(), loss, steps=steps, learning_rate=0.01)
    model.float()
    one = _encode(ROLE_SENTENCE)
    swapped = _encode(("susan", "gave", "roses", "to", "mary"))
    with torch.no_grad():
        readings = zip(model(ids), answers, strict=True)
        giver, gift, receiver = (logits.argmax(dim=-1) == answer for logits, answer in readings)
        change = model.output_of_gave(one) - model.output_of_gave(swapped)
        averaged = model.output_of_gave(ids, average=True)
        return RoleReading(
            n_heads=n_heads,
            positions=positions,
            giver=_share(giver),
            gift=_share(gift),
            receiver=_share(receiver),
            giver_and_receiver=_share(giver & receiver),
            weights=model.attend(one).weights[0, :, _GAVE_AT],
            change_when_swapped=float(change.abs().max()),
            giver_by_average=accuracy(model.to_giver(averaged), answers[0]),
            receiver_by_average=accuracy(model.to_receiver(averaged), answers[2]),
            model=model,
            ids=one,
        )


def _all_sentences() -> Int[Tensor, "B T"]:
    sentences = [
        _encode((giver, "gave", gift, "to", receiver))
        for (giver, receiver), gift in product(permutations(ROLE_NAMES, 2), _GIFTS)
    ]
    return torch.cat(sentences)


def _encode(words: tuple[str, ...]) -> Int[Tensor, "1 T"]:
    return torch.tensor([[_WORDS.index(word) for word in words]])


def _share(right: Bool[Tensor, " B"]) -> float:
    return float(right.double().mean())

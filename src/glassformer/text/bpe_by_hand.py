"""Byte-pair encoding written out, to read and to teach: the tokens of subwords.py in slow motion.

Start from single characters. Count which two neighbours occur together most often, make them one
token, and repeat. The counts that decided each step are kept, so a lesson can show them.

This file is given words, already split, and knows nothing of bytes, spaces or special tokens. It
counts everything anew at each step: clear, and far too slow for a real corpus. It agrees with the
`tokenizers` library merge for merge, which the tests hold it to.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from glassformer.errors import ConfigError, InputError

Pair = tuple[str, str]


@dataclass(frozen=True)
class Merge:
    """One step of learning: the pair that became a token, and the counts that decided it."""

    left: str
    right: str
    counts: Counter[Pair]
    """How often each pair of neighbours occurred at this step, over all words."""

    @property
    def pair(self) -> Pair:
        """The two neighbours."""
        return self.left, self.right

    @property
    def token(self) -> str:
        """The new token."""
        return self.left + self.right

    @property
    def count(self) -> int:
        """How often the pair occurred: no other pair occurred more often."""
        return self.counts[self.pair]


def learn_merges(words: Iterable[str], *, vocab_size: int) -> list[Merge]:
    """The merges, in order, that grow the characters of the words into `vocab_size` tokens.

    Of equally frequent pairs, the one whose tokens are older wins: characters by code point, then
    merged tokens by when they were made. Ends early when no two neighbours are left.
    """
    frequency = Counter(word for word in words if word)
    splits = {word: list(word) for word in frequency}
    age = {character: n for n, character in enumerate(sorted(set("".join(frequency))))}
    if not age:
        raise InputError("nothing to learn from: the words hold no character")
    if vocab_size < len(age):
        raise ConfigError(
            f"expected a vocab_size of {len(age)} or more, one for each character, "
            f"received {vocab_size}"
        )
    merges: list[Merge] = []
    while len(age) < vocab_size:
        counts = _count_pairs(splits, frequency)
        if not counts:
            break
        left, right = min(counts, key=lambda pair: (-counts[pair], age[pair[0]], age[pair[1]]))
        merges.append(Merge(left, right, counts))
        # Two pairs may spell the same token, "a" + "bc" and "ab" + "c"; it keeps its first age.
        age.setdefault(left + right, len(age))
        splits = {word: merge_pair(tokens, (left, right)) for word, tokens in splits.items()}
    return merges


def apply_merges(word: str, merges: Sequence[Merge]) -> list[list[str]]:
    """A word after each merge that changes it: first its characters, last its tokens."""
    stages = [list(word)]
    rank = {merge.pair: n for n, merge in enumerate(merges)}
    while True:
        tokens = stages[-1]
        # The merge learnt first goes first, wherever it stands in the word.
        pair = min(pairwise(tokens), key=lambda pair: rank.get(pair, len(rank)), default=None)
        if pair is None or pair not in rank:
            return stages
        stages.append(merge_pair(tokens, pair))


def merge_pair(tokens: Sequence[str], pair: Pair) -> list[str]:
    """Tokens with each occurrence of a pair made one, from left to right."""
    merged: list[str] = []
    at = 0
    while at < len(tokens):
        found = tuple(tokens[at : at + 2]) == pair
        merged.append(pair[0] + pair[1] if found else tokens[at])
        at += 2 if found else 1
    return merged


def _count_pairs(splits: dict[str, list[str]], frequency: Counter[str]) -> Counter[Pair]:
    counts: Counter[Pair] = Counter()
    for word, tokens in splits.items():
        for pair in pairwise(tokens):
            counts[pair] += frequency[word]
    return counts

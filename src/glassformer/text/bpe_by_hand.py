"""Byte-pair encoding written out, for reading and teaching: what subwords.py does, in slow motion.

Start from single characters. Merge the most frequent pair of adjacent tokens into one token, and
repeat. The counts behind each merge are kept, so that a lesson can show them.

The input is words, already split; bytes, spaces and special tokens do not occur. Each step counts
everything again: clear, and far too slow for a real corpus. The merges equal those of the
`tokenizers` library, as tests check.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from glassformer.errors import ConfigError, InputError

TokenPair = tuple[str, str]


@dataclass(frozen=True)
class Merge:
    """One learnt merge: the pair that became a token, and the counts that decided it."""

    left: str
    right: str
    counts: Counter[TokenPair]
    """The frequency of each adjacent pair at this step, over all words."""

    @property
    def pair(self) -> TokenPair:
        return self.left, self.right

    @property
    def token(self) -> str:
        return self.left + self.right

    @property
    def count(self) -> int:
        """The pair's frequency, the highest of all pairs."""
        return self.counts[self.pair]


def learn_merges(words: Iterable[str], *, vocab_size: int) -> list[Merge]:
    """The merges, in order, that extend the characters of the words to `vocab_size` tokens.

    Ties go to the pair with the older tokens: characters by code point, then merged tokens in the
    order of their creation. Stops early when no pairs are left.
    """
    frequency = Counter(word for word in words if word)
    splits = {word: list(word) for word in frequency}
    age = {character: n for n, character in enumerate(sorted(set("".join(frequency))))}
    if not age:
        raise InputError("cannot learn merges: the words are empty")
    if vocab_size < len(age):
        raise ConfigError(
            "expected a vocab_size of {least} or more, one per character, received {vocab_size}",
            least=len(age),
            vocab_size=vocab_size,
        )
    merges: list[Merge] = []
    while len(age) < vocab_size:
        counts = _count_pairs(splits, frequency)
        if not counts:
            break
        left, right = min(counts, key=lambda pair: (-counts[pair], age[pair[0]], age[pair[1]]))
        merges.append(Merge(left, right, counts))
        # Two pairs may spell the same token, "a" + "bc" and "ab" + "c"; the first one counts.
        age.setdefault(left + right, len(age))
        splits = {word: merge_pair(tokens, (left, right)) for word, tokens in splits.items()}
    return merges


def apply_merges(word: str, merges: Sequence[Merge]) -> list[list[str]]:
    """A word after each merge that changes it: first its characters, finally its tokens."""
    stages = [list(word)]
    rank = {merge.pair: n for n, merge in enumerate(merges)}
    while True:
        tokens = stages[-1]
        # Merges are applied in the order learnt, wherever they occur in the word.
        pair = min(pairwise(tokens), key=lambda pair: rank.get(pair, len(rank)), default=None)
        if pair is None or pair not in rank:
            return stages
        stages.append(merge_pair(tokens, pair))


def merge_pair(tokens: Sequence[str], pair: TokenPair) -> list[str]:
    """Tokens with each occurrence of a pair merged, from left to right."""
    merged: list[str] = []
    at = 0
    while at < len(tokens):
        found = tuple(tokens[at : at + 2]) == pair
        merged.append(pair[0] + pair[1] if found else tokens[at])
        at += 2 if found else 1
    return merged


def _count_pairs(splits: dict[str, list[str]], frequency: Counter[str]) -> Counter[TokenPair]:
    counts: Counter[TokenPair] = Counter()
    for word, tokens in splits.items():
        for pair in pairwise(tokens):
            counts[pair] += frequency[word]
    return counts

"""What a step is called: its name, its symbol, and which of its axes are written.

    name     `encoder.blocks.0.attention.scores`, shorter as seen from a module
    symbol   S, and Q, K, V, A, W_Q, b_1, γ, x, … where the structure tells the role: by the stages
             of attention and of the residual stream, and by the names under which our modules,
             `torch.nn` and Hugging Face keep their parameters; otherwise the variable's own name
    axes     all but those of size 1: a batch of one is never written

Every formula takes its symbols from here, whoever prints it. Within one formula no two steps share
a symbol: states of the residual stream are told apart by their position (`x_mid = x + O`), anything
else by a prime.

A textbook (`textbook=True`, the lessons) has the same symbols but counts from 1, and shows a linear
map's matrix with one column for each output, as in x · W; PyTorch stores it transposed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from glassformer.tracing.capture.operator_calls import (
    ACTIVATIONS,
    COPIES,
    LINEAR_MAPS,
    NORMS,
    PRODUCTS,
    SOFTMAXES,
)
from glassformer.tracing.step_graph import views_read, writer_of

if TYPE_CHECKING:
    from glassformer.tracing.capture.memory import Index, View
    from glassformer.tracing.steps import Step
    from glassformer.tracing.trace import Trace


@dataclass(frozen=True, slots=True)
class Symbol:
    """What stands for a step in a formula: `W_Q`, `hidden`, `∂x`, `Q′`."""

    base: str
    below: str = ""
    lead: str = ""
    """`∂` of a gradient, `new ` of an updated parameter."""
    primes: int = 0

    def __str__(self) -> str:
        below = f"_{self.below}" if self.below else ""
        return f"{self.lead}{self.base}{below}{'′' * self.primes}"


class WrittenAxis(NamedTuple):
    """An axis whose index is written, and the number of its first position."""

    axis: int
    first: int


_STAGES = {
    "queries_rotated": Symbol("Q", "rot"), "keys_rotated": Symbol("K", "rot"),
    "queries": Symbol("Q"), "keys": Symbol("K"), "values": Symbol("V"),
    "scores": Symbol("S"), "scaled": Symbol("S", "scaled"), "masked": Symbol("S", "masked"),
    "weights": Symbol("A"), "context": Symbol("C"),
    "attn_out": Symbol("O"), "cross_out": Symbol("O"), "mlp_out": Symbol("F"),
    **{
        f"{side}_{part}": Symbol(letter, below)
        for side, letter in (("queries", "Q"), ("keys", "K"))
        for part, below in (("turned", "turned"), ("cosine_part", "cos"), ("sine_part", "sin"))
    },
}  # fmt: skip
_PROJECTED = frozenset(["queries", "keys", "values"])
_RESIDUAL = {"resid_mid": "mid", "resid_cross": "cross"}

# Module names by the role of their parameters; where a name is used for two roles, with the
# enclosing module.
_ROLES = {
    word: role
    for role, words in {
        "Q": "to_queries q_proj query q_lin wq query_proj linear_q Attention.q",
        "K": "to_keys k_proj key k_lin wk key_proj linear_k Attention.k",
        "V": "to_values v_proj value v_lin wv value_proj linear_v Attention.v",
        "O": "to_output o_proj out_proj out_lin wo attn.c_proj attention.output.dense attn.proj "
        "attention.dense Attention.o",
        "QKV": "c_attn in_proj_weight in_proj_bias qkv qkv_proj query_key_value Wqkv",
        "1": "expand fc1 c_fc linear1 up_proj lin1 intermediate.dense dense_h_to_4h wi wi_1 "
        "feed_forward.w3",
        "2": "contract fc2 mlp.c_proj linear2 down_proj lin2 output.dense dense_4h_to_h Dense.wo "
        "feed_forward.w2",
        "gate": "gate gate_proj wi_0 feed_forward.w1",
        "router": "router mlp.gate block_sparse_moe.gate router.classifier",
        "vocab": "to_vocabulary lm_head predictions.decoder",
        "classes": "to_classes",
    }.items()
    for word in words.split()
}
_TABLES = {
    word: symbol
    for symbol, words in {
        Symbol("E"): "embedding wte embed_tokens word_embeddings token_embedding tok_embeddings "
        "shared embeddings",
        Symbol("P"): "wpe position_embeddings embed_positions position_embedding positions",
        Symbol("E", "type"): "token_type_embeddings",
    }.items()
    for word in words.split()
}
_MADE_BY = {
    "W_Q": Symbol("Q"), "W_K": Symbol("K"), "W_V": Symbol("V"), "W_O": Symbol("O"),
    "W_QKV": Symbol("QKV"), "W_1": Symbol("H"), "W_2": Symbol("F"), "W_gate": Symbol("G"),
    "W_router": Symbol("R"),
    "W_vocab": Symbol("z"), "E": Symbol("e"), "P": Symbol("e", "pos"),
    "E_type": Symbol("e", "type"), "γ": Symbol("N"), "β": Symbol("N"),
}  # fmt: skip
"""The symbol of an operator's output, by the parameter it takes."""
_WORDS = {
    "logits": Symbol("z"),
    "summed": Symbol("x"),
    "looked_up": Symbol("e"),
    "position_vectors": Symbol("e", "pos"),
}
_READ_AS = {
    "projected_queries": "queries",
    "projected_keys": "keys",
    "projected_values": "values",
    "looked_up": "embedded",
    "position_vectors": "positions",
}
_MOVED = COPIES | {"view", "transpose", "permute", "detach", "unsqueeze", "squeeze"}
# The axis, as stored, that may run over the vocabulary: textbooks write token ids there, from 0.
_WORD_AXES = {"E": 0, "W_vocab": 0, "z": -1, "probabilities": -1}
_SCALED = (*NORMS, "batch_norm", "native_batch_norm", "group_norm", "native_group_norm")
"""Operators that multiply by γ and add β."""
_ATTENDING = _MOVED | LINEAR_MAPS | PRODUCTS | SOFTMAXES | {"add", "cat", "div", "mul", "where"}
"""What an attention consists of: not the `values` of a max."""
_PLAIN_WORDS = frozenset(["dense", "linear", "proj", "fc"])
"""Layer names that say nothing; the enclosing module's name is used instead."""
_PRIMES = 3


class Names:
    """The names, symbols and axes of a trace's steps.

    `given` maps step names to symbols, overriding all other rules.
    """

    def __init__(
        self, trace: Trace, *, textbook: bool = False, given: Mapping[str, str] | None = None
    ) -> None:
        self._trace = trace
        self.is_textbook = textbook
        self._given = dict(given or {})
        self._windows = trace.found_stages.windows
        # What the scores multiply: perhaps no longer the rotation itself, but rotated.
        self._rotated = {
            id(attention.stages[side]): _STAGES[f"{side}_rotated"]
            for attention in trace.found_stages.attentions
            for side in ("queries", "keys")
            if f"{side}_rotated" in attention.stages
        }
        self._symbols: dict[int, Symbol] = {}
        self._axes: dict[int, tuple[WrittenAxis, ...]] = {}
        self._sights: dict[int, Sight] = {}
        self._used: dict[tuple[tuple[str, ...], str], frozenset[str]] = {}

    def forget(self) -> None:
        """Break the reference cycles, so that a closed trace is freed at once."""
        self._sights.clear()

    def name(self, step: Step, seen_from: str = "") -> str:
        """A step's name relative to a module; that of a gradient begins with ∂."""
        name = step.name.removeprefix("gradients.")
        own = seen_from.removeprefix("gradients").removeprefix(".")
        short = name.removeprefix(f"{own}.") if own else name
        return f"∂{short}" if name != step.name else short

    def symbol(self, step: Step) -> Symbol:
        """The symbol of a step in formulas."""
        found = self._symbols.get(id(step))
        if found is None:
            found = self._symbols[id(step)] = self._find_symbol(step)
        return found

    def short(self, step: Step) -> str:
        """Its name relative to its module; a parameter's includes the module that holds it."""
        if step.role == "parameter":
            return ".".join(step.name.split(".")[-2:])
        if not step.module:
            return step.name
        words, within = step.name.split("."), step.module.split(".")
        # A part of a packed projection is named beside the module that computed it.
        shared = 0
        while shared < min(len(words) - 1, len(within)) and words[shared] == within[shared]:
            shared += 1
        is_number = words[shared].isdigit()  # `gru.2`: a `2` would say nothing
        return ".".join(words[max(0, shared - 1) if is_number else shared :])

    def word(self, step: Step) -> str:
        """The last word of its name, the one a reader knows."""
        word = _word(step.name)
        return _READ_AS.get(word, word)

    def axes(self, step: Step) -> tuple[WrittenAxis, ...]:
        """The axes whose indices are written, in order."""
        found = self._axes.get(id(step))
        if found is None:
            words, first = self._word_axis(step), int(self.is_textbook)
            found = tuple(
                WrittenAxis(axis, 0 if axis == words else first)
                for axis, size in enumerate(step.shape)
                if size != 1
            )
            found = self._axes[id(step)] = found[::-1] if self.is_turned(step) else found
        return found

    def sight(self, step: Step) -> Sight:
        """The symbols used in the formulas of a step's cells."""
        found = self._sights.get(id(step))
        if found is None:
            found = self._sights[id(step)] = Sight(self, step)
        return found

    def find(self, view: View, index: Index) -> tuple[Step, Index]:
        """The step under whose symbol a cell is written, and its index there.

        That is the step that wrote it; in a packed projection (QKV), the part it belongs to.
        """
        for part in self._windows.get(id(view.version), ()):
            place = part.view.find(view.address(index))
            if place is not None:
                return part, place
        return view.owner(index)

    def has_parts(self, step: Step) -> bool:
        """Whether cells of a step are written under the symbols of its parts."""
        return id(step.view.version) in self._windows

    def seat(self, step: Step, index: Index) -> tuple[Step, Index]:
        """Like `find`, for a cell given by the step that wrote it."""
        if id(step.view.version) in self._windows:
            return self.find(step.view, index)
        return step, index

    def is_turned(self, step: Step) -> bool:
        """Whether a textbook shows a step transposed: a linear map's matrix, old, new or ∂.

        Embedding tables are not transposed.
        """
        if not self.is_textbook or len(step.shape) != 2:
            return False
        name = step.name.removeprefix("gradients.")
        if name.startswith("update."):
            name = name.removeprefix("update.").removesuffix(".weight")
        return name in self._weights_of("linear") - self._weights_of("embedding")

    def _weights_of(self, *ops: str, argument: str = "weight") -> frozenset[str]:
        """The names of the parameters that these operators take as `weight`."""
        if (ops, argument) not in self._used:
            operands = (o for step in self._trace if step.op in ops for o in step.operands)
            self._used[ops, argument] = frozenset(
                o.step.name for o in operands if o.argument == argument and o.step is not None
            )
        return self._used[ops, argument]

    # --- axes ---

    def _word_axis(self, step: Step) -> int | None:
        """The axis whose positions are token ids, which a textbook does not renumber."""
        axis = _WORD_AXES.get(str(self.symbol(step))) if self.is_textbook else None
        sizes = {self._trace[name].shape[0] for name in self._weights_of("embedding")}
        if axis is None or not step.shape or step.shape[axis] not in sizes:
            return None
        return axis % len(step.shape)

    # --- symbols ---

    def _find_symbol(self, step: Step) -> Symbol:
        if step.name in self._given:
            return Symbol(self._given[step.name])
        if step.name.startswith(("gradients.", "update.")):
            return self._of_training(step)
        if step.role == "parameter":
            return self._of_parameter(step)
        word = _word(step.name)
        named = Symbol(step.op if word.isdigit() else word)  # a layer 0 would be read as a number
        if step.role == "activation":
            return self._of_stage(step) or self._of_structure(step) or named
        return named

    def _of_training(self, step: Step) -> Symbol:
        kind, _, name = step.name.partition(".")
        if kind == "update":
            name, _, last = name.rpartition(".")
            known = last == "weight" and name in self._trace
            return replace(self._known(name), lead="new ") if known else Symbol(_word(step.name))
        whole = step.name.rpartition(".")[0]  # without the operator that computed it
        if name.partition(".through.")[0] not in self._trace and whole in self._trace:
            if not _shows(self._trace[whole], step):  # a part of the derivative: `exp(x)`, 2x
                given = [operand.view for operand in step.operands if operand.step is not None]
                if step.op not in _MOVED or not given or not given[0].numel:
                    return Symbol(step.op.strip("_"))
                return self.symbol(self.find(given[0], (0,) * given[0].ndim)[0])
            name = whole.removeprefix("gradients.")
        name, _, through = name.partition(".through.")
        of = replace(self._known(name), lead="∂")
        return replace(of, below=str(self._known(through))) if through else of

    def _known(self, name: str) -> Symbol:
        """The symbol of a step by name; a name outside the trace gives its last word."""
        return self.symbol(self._trace[name]) if name in self._trace else Symbol(_word(name))

    def _of_parameter(self, step: Step) -> Symbol:
        path = [part for part in step.name.split(".") if part]
        letter, word = _matrix_or_bias(path)
        if not letter:
            return Symbol(word)
        scales = self._weights_of(*_SCALED, argument="weight" if letter == "W" else "bias")
        if "norm" in word.lower() or word.startswith("ln") or step.name in scales:
            return Symbol("γ" if letter == "W" else "β")
        if letter == "W" and step.name in self._weights_of("embedding"):
            owner = path[-3] if word == "table" and len(path) > 2 else word
            return _TABLES.get(owner) or Symbol("E", "" if owner.isdigit() else owner)
        ends = (path[-1], *_endings(path, word))
        role = next((_ROLES[end] for end in ends if end in _ROLES), None)
        if role is None and word in _PLAIN_WORDS and len(path) > 2:
            word = path[-3]
        return Symbol(letter, role or word)

    def _of_stage(self, step: Step) -> Symbol | None:
        """By the stages found in the structure of the whole run."""
        stages = self._trace.found_stages.every.get(id(step), ())
        if any(stage.startswith("resid_") for stage in stages):
            return Symbol("x")
        if len(_PROJECTED.intersection(stages)) > 1:
            return None  # a packed tensor keeps its own name
        rotated = self._rotated.get(id(step))
        return rotated or next((_STAGES[stage] for stage in _STAGES if stage in stages), None)

    def _of_structure(self, step: Step) -> Symbol | None:
        """By the parameter it takes, or the tensor it copies."""
        word = _word(step.name)
        attends = step.expanded or "attention" in step.module or "attn" in step.module
        if attends and step.op in _ATTENDING and (known := _STAGES.get(_READ_AS.get(word, word))):
            return known
        if step.op in NORMS:  # beside the vectors, the mean and 1/√(σ² + ε), for the gradient
            return Symbol(("N", "r" if "rms" in step.op else "μ", "r")[step.output])
        operands = [operand.step for operand in step.operands if operand.step is not None]
        if step.op in LINEAR_MAPS or step.op in ("embedding", "mul", "add"):
            made = (self._made_by(p, step.op) for p in self._parameters(operands, step.op))
            if (symbol := next((found for found in made if found is not None), None)) is not None:
                return Symbol("KV") if symbol.base == "QKV" and _reads_two_thirds(step) else symbol
        if operands and (step.op in _MOVED or step.op in ACTIVATIONS):
            source = self.symbol(operands[0])
            told = str(source) != _word(operands[0].name) or word == step.op.strip("_")
            if step.op in _MOVED and (told or source.base in ("H", "G")):
                return source
            if step.op in ACTIVATIONS and source.base in ("H", "G"):
                return replace(source, below=step.op)
        return _WORDS.get(word)

    @staticmethod
    def _parameters(operands: list[Step], op: str) -> Iterator[Step]:
        """The parameters among the operands; Gemma's norms multiply by 1 + γ."""
        for step in operands:
            if step.role == "parameter":
                yield step
            elif op == "mul" and step.op == "add" and len(step.operands) == 1:
                yield from (o.step for o in step.operands if o.step and o.step.role == "parameter")

    def _made_by(self, parameter: Step, op: str) -> Symbol | None:
        """The output's symbol for a parameter; a product with an embedding table gives logits."""
        symbol = str(self.symbol(parameter))
        if op in ("mul", "add"):
            return _MADE_BY[symbol] if symbol in ("γ", "β") else None
        if symbol == "E" and op != "embedding":
            return Symbol("z")
        return _MADE_BY.get(symbol)


def _reads_two_thirds(step: Step) -> bool:
    """Whether a projection reads keys and values alone of a parameter that has queries as well."""
    return any(
        operand.argument in ("weight", "mat2")
        and operand.step is not None
        and 3 * operand.view.numel == 2 * operand.step.view.numel
        for operand in step.operands
    )


def _shows(gradient: Step, made: Step) -> bool:
    """Whether a gradient has the numbers that an operator made, perhaps copied to other places."""
    if not gradient.view.numel:
        return False
    owner = writer_of(gradient.view)
    while owner is not made:
        read = views_read(owner) if owner.op in COPIES else []
        if not read:
            return False
        owner = writer_of(read[0])
    return True


class Sight:
    """The symbols of one formula, unique within it."""

    def __init__(self, names: Names, step: Step) -> None:
        self.names = names
        self._target = step
        operands: dict[int, Step] = {}
        for operand in step.operands:
            if operand.view.numel:
                owner, _ = names.find(operand.view, (0,) * operand.view.ndim)
                operands.setdefault(id(owner), owner)
        operands.pop(id(step), None)
        self._symbols = _told_apart([*operands.values(), step], names)

    def symbol(self, step: Step) -> Symbol:
        """The symbol of a step in this formula."""
        found = self._symbols.get(id(step))
        if found is None:  # a part of the result, or an operand that several steps wrote
            found = self.names.symbol(step)
            is_result = step.view.version is self._target.view.version
            own = id(self._target) if is_result else 0
            taken = {symbol for key, symbol in self._symbols.items() if key != own}
            if found in taken:
                found = _marked(found, taken)
        return found


def _told_apart(steps: Iterable[Step], names: Names) -> dict[int, Symbol]:
    """The steps' symbols, the result's last; duplicates are told apart by primes or numbers."""
    steps = list(steps)
    found = [names.symbol(step) for step in steps]
    for place, step in enumerate(steps):
        if found[place] == Symbol("x") and found.count(Symbol("x")) > 1:
            found[place] = Symbol("x", _RESIDUAL.get(step.stage or "", ""))
    told: dict[int, Symbol] = {}
    taken: set[Symbol] = set()
    repeats: Counter[Symbol] = Counter()
    for step, symbol in zip(steps, found, strict=True):
        told[id(step)] = symbol
        if symbol in taken:
            repeats[symbol] += 1
            told[id(step)] = _marked(symbol, taken, repeats[symbol])
        taken.add(told[id(step)])
    return told


def _marked(symbol: Symbol, taken: set[Symbol], repeat: int = 1) -> Symbol:
    """A free variant of a symbol: with primes, or beyond three with a number.

    `repeat` variants of it, this one among them, have been asked for: fewer need not be tried.
    """
    for primes in range(symbol.primes + 1, _PRIMES + 1):
        if (found := replace(symbol, primes=primes)) not in taken:
            return found
    numbers = count(max(2, repeat - _PRIMES + 1))
    numbered = (replace(symbol, below=f"{symbol.below}{n}") for n in numbers)
    return next(found for found in numbered if found not in taken)


def _word(name: str) -> str:
    """The last word of a name, without the number of a repetition."""
    parts = name.split(".")
    if len(parts) > 1 and parts[-1].isdigit():
        parts.pop()
    return parts[-1]


def _matrix_or_bias(path: list[str]) -> tuple[str, str]:
    """W or b and the name of its layer; for other parameters, no letter and their own name."""
    last = path[-1]
    for letter, kind in (("W", "weight"), ("b", "bias")):
        if last == kind:
            return letter, path[-2] if len(path) > 1 else ""
        if last.endswith(f"_{kind}"):
            return letter, last.removesuffix(f"_{kind}")
        if last.startswith(f"{kind}_"):
            return letter, last.removeprefix(f"{kind}_")
    return "", last


def _endings(path: list[str], word: str) -> Iterable[str]:
    """`attention.output.dense`, `output.dense`, `dense`: the longest first."""
    around = path[:-1] if len(path) > 1 and path[-2] == word else [*path[:-1], word]
    for kind in ("Attention", "Dense"):  # SelfAttention.q, DenseReluDense.wo of T5
        if len(around) > 1 and around[-2].endswith(kind):
            yield f"{kind}.{word}"
    yield from (".".join(around[-length:]) for length in range(min(3, len(around)), 0, -1))

"""The training problems: each has a dataclass that owns its settings.

`data.problem` names one, and the section `data` of a config is an instance of its class. The class
also says which models solve it, so that nothing else has to know problems by name. This module
imports neither torch nor numpy, so mistakes in the settings are reported at once. The modules
beside this one read the data (`problem_readers.READERS`).

The sentence under a field is its help text; a field redefined with a new default inherits it.
"""

from dataclasses import MISSING, dataclass, fields, replace
from typing import Annotated, Any, ClassVar, Literal, Self

from glassformer.errors import ConfigError, UnknownNameError, expect_ranges, shown
from glassformer.nn.config import Architecture
from glassformer.text.tokenizer import Cut

Kind = Literal["transformer", "lstm", "rnn", "conv", "factors"]
Task = Literal["classify", "translate", "continue", "mask", "rate"]

Count = Annotated[int, "[1, 2^31)"]  # no sensible count is larger, and not all code takes more
Share = Annotated[float, "[0, 0.99]"]


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Common settings: where the data are, and how examples become batches."""

    problem: str
    """Which examples to read and what to learn from them."""
    folder: str = ""
    """Where the data sets are; empty: $GLASSFORMER_DATA, then the cache folder."""
    cache: str = ""
    """Where tokenised texts are kept; empty: the cache folder."""
    max_tokens: Count | None = None
    """Tokens per step, padding included; or set batch_size."""
    batch_size: Count | None = None
    """Examples per step."""
    bucket_width: Count = 16
    """Texts whose lengths differ by less than this share a batch."""

    task: ClassVar[Task]
    architecture: ClassVar[Architecture]
    """Of the Transformer that solves it."""
    baselines: ClassVar[tuple[Kind, ...]] = ()
    """Other kinds of model that solve it."""
    predicts_probabilities: ClassVar[bool] = True
    """Whether outputs are probabilities, for label smoothing and R-Drop."""
    runs_on_text: ClassVar[bool] = False
    """Whether `glassformer run` takes a text with the trained model."""

    def __post_init__(self) -> None:
        if PROBLEMS.get(self.problem) is not type(self):
            if self.problem not in PROBLEMS:
                raise UnknownNameError("problem", self.problem, PROBLEMS)
            raise ConfigError(
                "the problem {problem} has settings of its own: use {right}, not {kind}",
                problem=self.problem,
                right=PROBLEMS[self.problem].__name__,
                kind=type(self).__name__,
            )
        if (self.max_tokens is None) == (self.batch_size is None):
            raise ConfigError(
                "set one of data.max_tokens and data.batch_size and the other to none, got "
                "{max_tokens} and {batch_size}",
                max_tokens=self.max_tokens,
                batch_size=self.batch_size,
            )
        expect_ranges(self, "data.")

    def as_evaluated(self, max_len: int) -> Self:  # noqa: ARG002  # not all problems have lengths
        """The settings by which a trained model of this context length is scored."""
        return self

    def check_model(self, kind: Kind, architecture: Architecture) -> None:
        """Raise if a model of this kind cannot solve the problem."""
        if kind == "transformer" and architecture != self.architecture:
            raise ConfigError(
                "data.problem {problem} needs model.architecture {architecture}, got {other}",
                problem=self.problem,
                architecture=self.architecture,
                other=architecture,
            )
        if kind != "transformer" and kind not in self.baselines:
            possible = " or ".join(("transformer", *self.baselines))
            raise ConfigError(
                "data.problem {problem} needs kind {possible}, got {kind}",
                problem=self.problem,
                possible=possible,
                kind=kind,
            )


@dataclass(frozen=True, kw_only=True)
class SplitData(DataConfig):
    """Data without an official validation part: some of the training examples are held out."""

    validation: Share = 0.1
    """Share of the training examples held out for validation."""


@dataclass(frozen=True, kw_only=True)
class TokenisedData(DataConfig):
    """Texts that become ids."""

    tokenizer: Literal["words", "subwords", "characters"] = "subwords"
    """What a token is."""
    vocab_size: Count | None = 8000
    """Vocabulary size at most, learnt from the training texts; none: chosen by their size."""
    max_len: Count = 512
    """Tokens per text at most; the rest is cut off."""

    most_tokens: ClassVar[int] = 4000
    """The largest vocabulary chosen automatically (vocab_size none)."""

    def as_evaluated(self, max_len: int) -> Self:
        return replace(self, max_len=max_len)


@dataclass(frozen=True, kw_only=True)
class PaddedData(TokenisedData):
    """Texts of different lengths, padded to share a batch."""

    share: Annotated[float, "(0, 1]"] = 1.0
    """Share of the training examples to use."""
    pad_multiple: Count = 1
    """Lengths are padded up to a multiple of this, or to max_len."""


@dataclass(frozen=True, kw_only=True)
class SingleTexts(PaddedData, SplitData):
    """Single texts, each read as a whole."""

    cut: Cut = "end"
    """Where a long text is cut: at its end, or in its middle."""


@dataclass(frozen=True, kw_only=True)
class ClassifiedTexts(SingleTexts):
    """Texts and their classes: whether a film review is positive."""

    word_dropout: Share = 0.0
    """Share of words dropped when training a classifier."""

    task = "classify"
    architecture = "classifier"
    baselines = ("lstm",)
    runs_on_text = True
    most_tokens = 8000  # a classifier outputs none, so more of them cost little


@dataclass(frozen=True, kw_only=True)
class LabelledTable(ClassifiedTexts):
    """The classes of a user's own table."""

    file: str = ""
    """The user's own CSV file."""
    text_column: str = "text"
    """Column of a CSV file that holds the text."""
    label_column: str = "label"
    """Column of a CSV file that holds the class."""


@dataclass(frozen=True, kw_only=True)
class MaskedReviews(SingleTexts):
    """Masked-word prediction on film reviews, to pretrain a classifier."""

    hidden: Share = 0.15
    """Share of words masked, for the model to predict."""

    task = "mask"
    architecture = "masked_language_model"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.hidden:
            raise ConfigError("data.hidden must be above 0: without hidden words nothing is learnt")


@dataclass(frozen=True, kw_only=True)
class DigitImages(DataConfig):
    """Which digit an image shows."""

    task = "classify"
    architecture = "image_classifier"


@dataclass(frozen=True, kw_only=True)
class MovieLens(SplitData):
    """How many stars a person gives a film."""

    task = "rate"
    architecture = "recommender"
    baselines = ("factors",)
    predicts_probabilities = False


@dataclass(frozen=True, kw_only=True)
class TranslationPairs(PaddedData):
    """Sentences and their translations."""

    tokenised_bleu: bool = False
    """Also report lowercased, tokenised BLEU, as the Multi30k papers do (needs sacremoses)."""

    task = "translate"
    architecture = "seq2seq"
    baselines = ("rnn", "conv")
    runs_on_text = True

    def as_evaluated(self, max_len: int) -> Self:
        """As the literature reports scores; training needs less installed."""
        tokenised_bleu = self.problem == "translate-multi30k"
        return replace(self, max_len=max_len, tokenised_bleu=tokenised_bleu)


@dataclass(frozen=True, kw_only=True)
class PairsFile(TranslationPairs, SplitData):
    """A user's own pairs: source, tab, target, one pair per line."""

    file: str = ""
    """The user's own file of pairs."""


@dataclass(frozen=True, kw_only=True)
class RunningText(TokenisedData):
    """Running text, to be continued."""

    task = "continue"
    architecture = "language_model"
    runs_on_text = True


@dataclass(frozen=True, kw_only=True)
class TextFile(RunningText, SplitData):
    """Any text file in UTF-8."""

    file: str = ""
    """The user's own text file."""


PROBLEMS: dict[str, type[DataConfig]] = {
    "classify-imdb": ClassifiedTexts,
    "classify-csv": LabelledTable,
    "mask-imdb": MaskedReviews,
    "classify-digits": DigitImages,
    "rate-movielens": MovieLens,
    "translate-thrones": TranslationPairs,
    "translate-file": PairsFile,
    "translate-multi30k": TranslationPairs,
    "translate-de": TranslationPairs,
    "translate-zh": TranslationPairs,
    "continue-shakespeare": RunningText,
    "continue-wikitext2": RunningText,
    "continue-file": TextFile,
}
"""By the name in `data.problem`."""


def problem_class(name: object) -> type[DataConfig]:
    if not isinstance(name, str) or name not in PROBLEMS:
        raise UnknownNameError("problem", name if isinstance(name, str) else shown(name), PROBLEMS)
    return PROBLEMS[name]


def settings_names(cls: type[DataConfig]) -> set[str]:
    return {field.name for field in fields(cls)}


def foreign_default(name: str) -> Any:
    """The default of a setting of any problem; MISSING if none has it."""
    for cls in PROBLEMS.values():
        for field in fields(cls):
            if field.name == name:
                return field.default
    return MISSING

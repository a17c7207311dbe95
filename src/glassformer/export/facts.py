"""What a program must know of a model to use it: classes, ids, lengths. As text, for any engine."""

import json

from glassformer import __version__
from glassformer.checkpoint import TARGET_TOKENIZER, TOKENIZER, Checkpoint
from glassformer.text import Tokenizer

__all__ = ["facts_of"]


def facts_of(checkpoint: Checkpoint) -> dict[str, str]:
    """By name; what a model does not have is not there."""
    reads, writes = checkpoint.tokenizer, checkpoint.target_tokenizer or checkpoint.tokenizer
    facts = {
        "architecture": checkpoint.config.architecture,
        "labels": json.dumps(list(checkpoint.labels), ensure_ascii=False),
        "longest text": f"{checkpoint.config.max_len} tokens",
        "longer texts lose": str(checkpoint.about.get("cut", "end")),
        "tokenizer": TOKENIZER if reads is not None else "",
        "tokenizer of answers": TARGET_TOKENIZER if checkpoint.target_tokenizer else "",
        "special tokens": _special(writes) if writes is not None else "",
        "glassformer": __version__,
    }
    if not checkpoint.labels:
        del facts["labels"], facts["longer texts lose"]
    return {name: value for name, value in facts.items() if value}


def _special(tokenizer: Tokenizer) -> str:
    """The ids that a program must know: a translator's source ends with `end`, its target begins
    with `start`."""
    special = tokenizer.special
    ids = {"pad": special.pad, "start": special.start, "end": special.end}
    return ", ".join(f"{name} {id_}" for name, id_ in ids.items() if id_ is not None)

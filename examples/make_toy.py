"""Set every parameter of the shipped toy by hand: a classifier that understands "not".

    python examples/make_toy.py [FOLDER]

Nine words, four dimensions, one block, one head, no norms: small enough to check with a pencil.
The dimensions mean: 0 feeling (+ happy, − sad), 1 negation, 2 person, 3 always 1.

- Attention: every word queries (with its dimension 3) for negation (dimension 1 of the others). If
  "not" is in the sentence, it gets nearly all the weight, and its 1 is added to dimension 1.
- Feed-forward: feeling − 2·ReLU(feeling + 4·negation − 4) + 2·ReLU(−feeling + 4·negation − 4),
  which is the feeling without negation and its opposite with it.
- The mean feeling of the words decides the class.
"""

import sys
from pathlib import Path

import torch

from glassformer import checkpoint
from glassformer.checkpoint import Checkpoint
from glassformer.nn import (
    AttentionConfig,
    BlockConfig,
    Classifier,
    FeedForwardConfig,
    ModelConfig,
    OutputConfig,
    PositionConfig,
)
from glassformer.text import WordTokenizer

SHIPPED = Path(__file__).parent.parent / "src" / "glassformer" / "models" / "toy"

#         feeling  negation  person  one
MEANINGS = {
    "I": (0, 0, 1, 1),
    "you": (0, 0, 1, 1),
    "we": (0, 0, 1, 1),
    "am": (0, 0, 0, 1),
    "are": (0, 0, 0, 1),
    "very": (0, 0, 0, 1),
    "not": (0, 1, 0, 1),
    "happy": (2, 0, 0, 1),
    "sad": (-2, 0, 0, 1),
}


def make_toy() -> Checkpoint:
    tokenizer = WordTokenizer.build([" ".join(MEANINGS)], case="ignore")
    pad = tokenizer.special.pad
    config = ModelConfig(
        architecture="classifier",
        vocab_size=tokenizer.vocab_size,
        d_model=4,
        n_layers=1,
        max_len=16,
        pad_id=pad,
        attention=AttentionConfig(n_heads=1, d_head=1, d_value=1, divisor="none"),
        feed_forward=FeedForwardConfig(d_ff=2),
        block=BlockConfig(norm="none", dropout=0.0),
        positions=PositionConfig(kind="none"),
        output=OutputConfig(n_classes=2, pooling="mean"),
    )
    model = Classifier(config).eval()
    values = {
        "encoder.embedding.weight": [
            MEANINGS.get(tokenizer.token(id_), (0, 0, 0, 1)) for id_ in range(tokenizer.vocab_size)
        ],
        "encoder.blocks.0.attention.to_queries.weight": [[0, 0, 0, 1]],
        "encoder.blocks.0.attention.to_keys.weight": [[0, 6, 0, 0]],
        "encoder.blocks.0.attention.to_values.weight": [[0, 1, 0, 0]],
        "encoder.blocks.0.attention.to_output.weight": [[0], [1], [0], [0]],
        "encoder.blocks.0.feed_forward.expand.weight": [[1, 4, 0, 0], [-1, 4, 0, 0]],
        "encoder.blocks.0.feed_forward.expand.bias": [-4, -4],
        "encoder.blocks.0.feed_forward.contract.weight": [[-2, 2], [0, 0], [0, 0], [0, 0]],
        "encoder.blocks.0.feed_forward.contract.bias": [0, 0, 0, 0],
        "to_classes.weight": [[-4, 0, 0, 0], [4, 0, 0, 0]],
    }
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.tensor(values[name], dtype=torch.float32))
    about = {
        "name": "toy",
        "what": "a classifier with parameters set by hand: it understands 'not'",
        "command": "python examples/make_toy.py",
        "data": "none",
        "licence": "MIT",
    }
    return Checkpoint(model, config, tokenizer, labels=("sad", "happy"), about=about)


CARD = """---
library_name: glassformer
license: mit
language: [en]
---

# toy: a Transformer with every parameter set by hand

Says whether a sentence of its nine words is happy or sad, and understands "not": attention brings
the negation to every word, the feed-forward turns the feeling round, the mean decides. Four
dimensions, one block, one head, no norms; `examples/make_toy.py` says what each number is for.

No data, no training. Words: I, you, we, am, are, very, not, happy, sad; others count as neutral.

    glassformer run toy "I am not happy"
    glassformer explain toy "I am not happy" --at 'encoder.blocks.0.attention.weights[0,3,2]'
"""


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else SHIPPED
    print(checkpoint.save(target, make_toy(), card=CARD))

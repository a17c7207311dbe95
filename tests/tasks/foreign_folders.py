"""Folders as `save_pretrained` writes them: small random models with real tokenizers.

`FOLDERS` names 30 and more; `write(name, folder)` makes one. The tokenizers are trained here on a
few sentences, each of the kind that its family has: WordPiece with [CLS] and [SEP], byte-level BPE,
Unigram with an end token.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from tests.tracing.foreign_models import FAMILIES

SENTENCES = [
    "a wonderful film about a cat on a mat",
    "a terrible film and a waste of time",
    "the cat sat on the mat and looked at the moon",
    "I am not happy with this film",
    "two children are playing in the snow",
]
TEXT = "the cat sat on the mat"
CLASSES = ("bad", "good", "so-so")


@cache
def wordpiece() -> Any:
    """BERT's kind: [CLS] … [SEP]."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.train_from_iterator(
        SENTENCES,
        trainers.WordPieceTrainer(vocab_size=120, special_tokens=special, show_progress=False),
    )
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]",
        sep_token="[SEP]", mask_token="[MASK]",
    )  # fmt: skip


@cache
def byte_level() -> Any:
    """GPT-2's kind: nothing is added to a text."""
    special = ["<pad>", "<s>", "</s>", "<unk>", "<mask>"]
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(
        SENTENCES,
        trainers.BpeTrainer(
            vocab_size=300, special_tokens=special, show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        ),
    )  # fmt: skip
    return _with_ends(made)


@cache
def byte_level_between_ends() -> Any:
    """RoBERTa's and BART's kind: <s> … </s>."""
    made = Tokenizer.from_str(byte_level().backend_tokenizer.to_str())
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    return _with_ends(made)


@cache
def unigram() -> Any:
    """T5's kind: … </s>, and ▁ for a space."""
    special = ["<pad>", "<s>", "</s>", "<unk>", "<mask>"]
    made = Tokenizer(models.Unigram())
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    made.train_from_iterator(
        SENTENCES,
        trainers.UnigramTrainer(
            vocab_size=100, special_tokens=special, unk_token="<unk>", show_progress=False
        ),
    )
    made.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 2)]
    )
    return _with_ends(made)


def _with_ends(made: Tokenizer) -> Any:
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", bos_token="<s>", eos_token="</s>",
        unk_token="<unk>", mask_token="<mask>",
    )  # fmt: skip


@dataclass(frozen=True)
class Folder:
    """A family of `FAMILIES` with a head, and the tokenizer that goes with it."""

    family: str
    task: str
    """That of our `Model`."""
    head: str | None = None
    """Which `AutoModelFor…`; None: the family's own."""
    tokenizer: Callable[[], Any] | None = byte_level
    options: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        torch.manual_seed(len(self.family))
        module = self.module()
        module.save_pretrained(folder)
        if self.tokenizer is not None:
            self.tokenizer().save_pretrained(folder)
        if hasattr(module.config, "image_size") or hasattr(module.config, "vision_config"):
            processor = {
                "image_processor_type": "ViTImageProcessor",
                "size": {"height": 16, "width": 16},
                "image_mean": [0.5] * 3,
                "image_std": [0.5] * 3,
            }
            (folder / "preprocessor_config.json").write_text(json.dumps(processor))
        return folder

    def module(self) -> Any:
        family = FAMILIES[self.family]
        vocabulary = {} if self.tokenizer is None else {"vocab_size": len(self.tokenizer())}
        made = type(family)(
            family.config, family.task, family.options | vocabulary | self.options, family.left_out
        )
        config: Any = made.make().config
        if self.task in ("classify", "tag"):
            config.id2label = dict(enumerate(CLASSES))
            config.label2id = {name: at for at, name in enumerate(CLASSES)}
        kind = f"AutoModelFor{family.task}" if self.head is None else f"AutoModel{self.head}"
        return getattr(transformers, kind).from_config(config)


def _clip(text: str, vision: str, both: str, **options: Any) -> Callable[[], Any]:
    sizes = {
        "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
        "num_attention_heads": 2, "projection_dim": 8,
    }  # fmt: skip

    def make() -> Any:
        special = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
        words = getattr(transformers, text)(
            **sizes, **special, vocab_size=len(byte_level_between_ends()),
            max_position_embeddings=32,
        )  # fmt: skip
        pixels = getattr(transformers, vision)(**sizes, image_size=16, patch_size=8)
        config = getattr(transformers, both)(
            text_config=words.to_dict(), vision_config=pixels.to_dict(), **options
        )
        return transformers.AutoModel.from_config(config)

    return make


@dataclass(frozen=True)
class Pair(Folder):
    """A text and an image encoder."""

    make: Callable[[], Any] = lambda: None

    def module(self) -> Any:
        return self.make()


_ends = byte_level_between_ends
FOLDERS: dict[str, Folder] = {
    # causal language models
    **{
        name: Folder(name, "generate")
        for name in (
            "gpt2",
            "gpt_neo",
            "gpt_neox",
            "opt",
            "bloom",
            "llama",
            "mistral",
            "qwen2",
            "qwen3",
            "gemma2",
            "phi",
            "falcon",
            "mixtral",
            "mamba",
        )
    },
    # masked language models
    "bert_masked": Folder("bert", "fill", "ForMaskedLM", wordpiece),
    "roberta_masked": Folder("roberta", "fill", "ForMaskedLM", _ends),
    "distilbert_masked": Folder("distilbert", "fill", "ForMaskedLM", wordpiece),
    "modernbert_masked": Folder("modernbert", "fill", "ForMaskedLM", wordpiece),
    # sequence classification
    "bert": Folder("bert", "classify", None, wordpiece),
    "roberta": Folder("roberta", "classify", None, _ends),
    "albert": Folder("albert", "classify", None, unigram),
    "deberta_v2": Folder("deberta_v2", "classify", None, wordpiece),
    "electra": Folder("electra", "classify", None, wordpiece),
    # token classification
    "bert_tokens": Folder("bert", "tag", "ForTokenClassification", wordpiece),
    "roberta_tokens": Folder("roberta", "tag", "ForTokenClassification", _ends),
    # encoder-decoders
    "t5": Folder("t5", "translate", None, unigram),
    "bart": Folder("bart", "translate", None, _ends),
    "marian": Folder("marian", "translate", None, unigram),
    "pegasus": Folder("pegasus", "translate", None, unigram),
    # sentence encoders
    "bert_vectors": Folder("bert", "embed", "", wordpiece),
    "mpnet_vectors": Folder("mpnet", "embed", "", _ends),
    # image classifiers
    "vit": Folder("vit", "classify", None, None),
    "swin": Folder("swin", "classify", None, None),
    "convnext": Folder("convnext", "classify", None, None),
    # pairs of a text and an image encoder
    "clip": Pair(
        "",
        "embed",
        tokenizer=_ends,
        make=_clip("CLIPTextConfig", "CLIPVisionConfig", "CLIPConfig", projection_dim=8),
    ),
    "siglip": Pair(
        "",
        "embed",
        tokenizer=_ends,
        make=_clip("SiglipTextConfig", "SiglipVisionConfig", "SiglipConfig"),
    ),
}


def picture(file: Path) -> Path:
    """A small image file."""
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, (20, 24, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file)
    return file

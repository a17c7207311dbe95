"""A model as a Hugging Face folder that `AutoModel…from_pretrained` opens without our code.

`hugging_face_models` says which architecture fits. transformers is imported to check the result.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from glassformer.checkpoint import Checkpoint
from glassformer.errors import ExportError, Fragment
from glassformer.export.compatibility import padded, probe_ids
from glassformer.export.hugging_face_models import (
    family_of,
    hugging_face_config,
    hugging_face_state,
)
from glassformer.nn import LanguageModel, MaskedLanguageModel, ModelConfig, Seq2Seq, TextEncoder
from glassformer.text import SpecialTokens, SubwordTokenizer


def check(config: ModelConfig) -> None:
    """Refuse a model that no architecture of theirs can represent."""
    family_of(config)


def write(checkpoint: Checkpoint, folder: Path) -> None:
    """Write config.json, model.safetensors and, for subwords, tokenizer.json."""
    _transformers()
    config, state = _converted(checkpoint)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    _json(folder / "config.json", config)
    if isinstance(checkpoint.model, Seq2Seq):
        ids = {key: value for key, value in config.items() if key.endswith("_token_id")}
        _json(folder / "generation_config.json", {"num_beams": 4, "early_stopping": True} | ids)
    _write_tokenizer(checkpoint, folder)


def _write_tokenizer(checkpoint: Checkpoint, folder: Path) -> None:
    """Subword tokenizers are in their format already; words and characters are in ours."""
    tokenizer = checkpoint.tokenizer
    if not isinstance(tokenizer, SubwordTokenizer) or checkpoint.target_tokenizer is not None:
        return
    tokenizer.save(folder / "tokenizer.json")
    special = tokenizer.special
    if isinstance(checkpoint.model, Seq2Seq) and special.end is not None:
        import tokenizers
        from tokenizers.processors import TemplateProcessing

        end = tokenizer.token(special.end)  # our translators read the text, then the end token
        theirs = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        theirs.post_processor = TemplateProcessing(f"$A {end}", None, [(end, special.end)])
        theirs.save(str(folder / "tokenizer.json"))
    names = {"pad": special.pad, "unk": special.unknown, "bos": special.start, "eos": special.end}
    tokens = {f"{k}_token": tokenizer.token(i) for k, i in names.items() if i is not None}
    _json(
        folder / "tokenizer_config.json",
        {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
        | tokens,
    )


def verify(checkpoint: Checkpoint, folder: Path) -> str:
    """Open the folder as any user would and compare outputs; returns the result in words."""
    theirs = _open(checkpoint.model, folder)
    ids, is_token = padded(probe_ids(checkpoint, 5))
    known = {"input_ids": ids, "attention_mask": is_token.long()}
    with torch.inference_mode():
        if isinstance(checkpoint.model, Seq2Seq):
            target = ids[:, : max(1, ids.size(1) // 2)]
            ours = checkpoint.model(ids, target, is_token)
            other = theirs(**known, decoder_input_ids=target).logits
        else:
            ours = checkpoint.model(ids, is_token)
            output = theirs(**known)
            other = (
                output.last_hidden_state if hasattr(output, "last_hidden_state") else output.logits
            )
    if not isinstance(checkpoint.model, Seq2Seq):  # outputs at padding are meaningless
        ours, other = ours[is_token], other[is_token]
    worst = float((ours - other).abs().max() / ours.abs().max())
    if not worst < 1e-4:
        raise ExportError(
            "transformers' output differs from the model's by {worst:.1e}", worst=worst
        )
    return Fragment.of("transformers' output is within {worst:.1e} of the model's", worst=worst)


def _converted(checkpoint: Checkpoint) -> tuple[dict[str, Any], dict[str, Tensor]]:
    model = checkpoint.model
    tokenizer = checkpoint.target_tokenizer or checkpoint.tokenizer
    special = tokenizer.special if tokenizer is not None else SpecialTokens()
    if isinstance(model, Seq2Seq) and special.start is None:
        raise ExportError("a translator needs a start token; the vocabulary of this one has none")
    return hugging_face_config(checkpoint.config, special), hugging_face_state(model)


def _open(model: object, folder: Path) -> Any:
    transformers = _transformers()
    kinds = (
        (Seq2Seq, transformers.AutoModelForSeq2SeqLM),
        (LanguageModel, transformers.AutoModelForCausalLM),
        (MaskedLanguageModel, transformers.AutoModelForMaskedLM),
        (TextEncoder, transformers.AutoModel),
    )
    opener = next(theirs for ours, theirs in kinds if isinstance(model, ours))
    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        return opener.from_pretrained(folder, local_files_only=True).eval()
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def _transformers() -> Any:
    try:
        import transformers
    except ImportError:
        raise ExportError(
            "this export needs transformers to check itself: pip install 'glassformer[hf]'"
        ) from None
    return transformers


def _json(file: Path, data: dict[str, Any]) -> None:
    file.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

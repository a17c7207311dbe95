"""A model as a Hugging Face folder that `AutoModel…from_pretrained` opens without code of ours.

Only where an architecture of theirs fits: Marian or Pegasus for an encoder-decoder, GPT-2 or Llama
for a language model, BERT for an encoder. transformers is imported to check what was written.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from glassformer.checkpoint import Checkpoint
from glassformer.errors import ExportError
from glassformer.export import bert_weights, gpt_weights, marian_weights
from glassformer.export.compatibility import padded, probe_ids
from glassformer.nn import LanguageModel, MaskedLanguageModel, ModelConfig, Seq2Seq, TextEncoder
from glassformer.text import SpecialTokens, SubwordTokenizer


def check(config: ModelConfig) -> None:
    """Refuse what no architecture of theirs can hold."""
    if config.architecture == "seq2seq":
        marian_weights.architecture(config)
    elif config.architecture == "language_model":
        gpt_weights.architecture(config)
    elif config.architecture in ("encoder", "masked_language_model"):
        bert_weights.check(config)
    else:
        raise ExportError(
            "no Hugging Face architecture is made like our {architecture}",
            architecture=config.architecture,
        )


def write(checkpoint: Checkpoint, folder: Path) -> None:
    """Write config.json, model.safetensors and, where it is theirs, tokenizer.json."""
    check(checkpoint.config)
    _transformers()
    config, state = _translated(checkpoint)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    _json(folder / "config.json", config)
    if isinstance(checkpoint.model, Seq2Seq):
        ids = {key: value for key, value in config.items() if key.endswith("_token_id")}
        _json(folder / "generation_config.json", {"num_beams": 4, "early_stopping": True} | ids)
    _write_tokenizer(checkpoint, folder)


def _write_tokenizer(checkpoint: Checkpoint, folder: Path) -> None:
    """Subwords are theirs already; words and characters are kept in a format of our own."""
    tokenizer = checkpoint.tokenizer
    if not isinstance(tokenizer, SubwordTokenizer) or checkpoint.target_tokenizer is not None:
        return
    tokenizer.save(folder / "tokenizer.json")
    special = tokenizer.special
    if isinstance(checkpoint.model, Seq2Seq) and special.end is not None:
        import tokenizers
        from tokenizers.processors import TemplateProcessing

        end = tokenizer.token(special.end)  # as our translators read it: the text, then the end
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
    """Open the folder as anyone would and compare logits; returns what was found."""
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
    if not isinstance(checkpoint.model, Seq2Seq):  # what stands at padding means nothing
        ours, other = ours[is_token], other[is_token]
    worst = float((ours - other).abs().max() / ours.abs().max())
    if not worst < 1e-4:
        raise ExportError(
            "transformers' output differs from the model's by {worst:.1e}", worst=worst
        )
    return f"transformers' output is within {worst:.1e} of the model's"


def _translated(checkpoint: Checkpoint) -> tuple[dict[str, Any], dict[str, Tensor]]:
    model = checkpoint.model
    tokenizer = checkpoint.target_tokenizer or checkpoint.tokenizer
    special = tokenizer.special if tokenizer is not None else SpecialTokens()
    if isinstance(model, Seq2Seq):
        if special.start is None:
            raise ExportError("a translator needs a start token; this one's vocabulary has none")
        config = marian_weights.hugging_face_config(model.config, special)
        return config, marian_weights.hugging_face_state(model)
    if isinstance(model, LanguageModel):
        config = gpt_weights.hugging_face_config(model.config, special)
        return config, gpt_weights.hugging_face_state(model)
    assert isinstance(model, TextEncoder | MaskedLanguageModel)
    config = bert_weights.hugging_face_config(model.config, special)
    return config, bert_weights.hugging_face_state(model)


def _open(model: object, folder: Path) -> Any:
    transformers = _transformers()
    kinds = (
        (Seq2Seq, transformers.AutoModelForSeq2SeqLM),
        (LanguageModel, transformers.AutoModelForCausalLM),
        (MaskedLanguageModel, transformers.AutoModelForMaskedLM),
        (TextEncoder, transformers.AutoModel),
    )
    opener = next(theirs for ours, theirs in kinds if isinstance(model, ours))
    talk = transformers.utils.logging
    level, bars = talk.get_verbosity(), talk.is_progress_bar_enabled()
    talk.set_verbosity_error()
    talk.disable_progress_bar()
    try:
        return opener.from_pretrained(folder, local_files_only=True).eval()
    finally:
        talk.set_verbosity(level)
        if bars:
            talk.enable_progress_bar()


def _transformers() -> Any:
    try:
        import transformers
    except ImportError:
        raise ExportError(
            "this export needs transformers to check itself: pip install transformers"
        ) from None
    return transformers


def _json(file: Path, data: dict[str, Any]) -> None:
    file.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

"""The README.md of an export: what it is, how to run it, how it was checked."""

from __future__ import annotations

import json

from glassformer import __version__
from glassformer.checkpoint import TARGET_TOKENIZER, TOKENIZER, Checkpoint
from glassformer.text import SubwordTokenizer, Tokenizer

# --- facts ---
# What a program must know of a model to use it: classes, ids, lengths. As text, for any engine.


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


_USE = {
    "ctranslate2": (
        "import ctranslate2\n"
        "from glassformer.text import load_tokenizer\n\n"
        'tokenizer, answers = load_tokenizer("{tokenizer}"), load_tokenizer("{answers}")\n'
        'tokens = [tokenizer.token(i) for i in tokenizer.encode("{text}")]\n'
        'translator = ctranslate2.Translator(".")\n'
        "(found,) = translator.translate_batch([tokens], beam_size=4)\n"
        "ids = {{answers.token(i): i for i in range(answers.vocab_size)}}\n"
        "print(answers.decode([ids[token] for token in found.hypotheses[0]]))"
    ),
    "hf": "from transformers import {opener}\n\nmodel = {opener}.from_pretrained('.')",
    "torch": 'import torch\n\nprogram = torch.export.load("model.pt2").module()',
}
_ONNX = {
    "classifier": (
        "import numpy, onnxruntime\n"
        "from glassformer.text import load_tokenizer\n"
        "from glassformer.text.cutting import cut_ids\n\n"
        'tokenizer = load_tokenizer("{tokenizer}")\n'
        'ids = cut_ids(tokenizer.encode("{text}"), {max_len}, "{cut}")\n'
        'session = onnxruntime.InferenceSession("model.onnx")\n'
        "# both of shape (texts, tokens): int64, and bool, true at tokens and false at padding\n"
        'inputs = {{"ids": numpy.array([ids]), "is_token": numpy.ones((1, len(ids)), bool)}}\n'
        "(probabilities,) = session.run(None, inputs)\n"
        "print(dict(zip({labels}, probabilities[0].tolist())))"
    ),
    "language_model": (
        "import onnxruntime\n\n"
        'decoder = onnxruntime.InferenceSession("decoder.onnx")\n'
        "# token (texts, 1) and what the step before returned, at first of length 0 along axis 2\n"
        "inputs = [one.name for one in decoder.get_inputs()]\n"
        "logits, *past = decoder.run(None, dict(zip(inputs, [token, *past])))"
    ),
    "seq2seq": (
        "import onnxruntime\n\n"
        'encoder = onnxruntime.InferenceSession("encoder.onnx")\n'
        'decoder = onnxruntime.InferenceSession("decoder.onnx")\n'
        "# both of shape (texts, tokens): int64, and bool, true at tokens and false at padding\n"
        'read = encoder.run(None, {{"source": source, "is_token": is_token}})\n'
        "# token (texts, 1) and what the step before returned, at first of length 0 along axis 2\n"
        "inputs = [one.name for one in decoder.get_inputs()]\n"
        "step = [token, *past, is_token, *read]\n"
        "logits, *past = decoder.run(None, dict(zip(inputs, step)))"
    ),
}
_OPENERS = {
    "seq2seq": "AutoModelForSeq2SeqLM",
    "language_model": "AutoModelForCausalLM",
    "masked_language_model": "AutoModelForMaskedLM",
}


def card(checkpoint: Checkpoint, name: str, target: str, found: str) -> str:
    """The text of the card; `found` says how the export was checked."""
    known = {
        name: fact
        for name, fact in checkpoint.about.items()
        if isinstance(fact, str | int | float) and fact != "" and name != "cut"  # told below
    }
    known |= facts_of(checkpoint)
    if isinstance(checkpoint.tokenizer, SubwordTokenizer):
        known |= {"texts to ids": '`tokenizers.Tokenizer.from_file("tokenizer.json")`'}
    facts = "".join(f"- {key}: {value}\n" for key, value in known.items())
    return (
        f"# {name}, for {target}\n\nExported by Glassformer {__version__} from a "
        f"{type(checkpoint.model).__name__}. Checked after writing: {found}.\n\n"
        f"```python\n{_example(checkpoint, target)}\n```\n\n{facts}"
    )


def _example(checkpoint: Checkpoint, target: str) -> str:
    """Lines that use the export from within its folder."""
    architecture = checkpoint.config.architecture
    use = _ONNX.get(architecture, "") if target == "onnx" else _USE[target]
    return use.format(
        opener=_OPENERS.get(architecture, "AutoModel"),
        tokenizer=TOKENIZER,
        answers=TARGET_TOKENIZER if checkpoint.target_tokenizer else TOKENIZER,
        text="You win or you die.",
        max_len=checkpoint.config.max_len,
        cut=checkpoint.about.get("cut", "end"),
        labels=list(checkpoint.labels) or "range(len(probabilities[0]))",
    )

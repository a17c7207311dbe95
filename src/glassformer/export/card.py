"""The README.md of an export: what it is, how to run it, how it was checked."""

from glassformer import __version__
from glassformer.checkpoint import Checkpoint
from glassformer.text import SubwordTokenizer, Tokenizer

__all__ = ["card"]

_USE = {
    "onnx": "import onnxruntime\n\n{onnx}",
    "ctranslate2": (
        "import ctranslate2\n\n"
        'translator = ctranslate2.Translator(".")\n'
        'translator.translate_batch([["tokens", "of", "the", "source"]], beam_size=4)'
    ),
    "hf": "from transformers import {opener}\n\nmodel = {opener}.from_pretrained('.')",
    "torch": 'import torch\n\nprogram = torch.export.load("model.pt2").module()',
}
_ONNX = {
    "classifier": (
        'session = onnxruntime.InferenceSession("model.onnx")\n'
        "# both of shape (texts, tokens): int64, and bool, true at tokens and false at padding\n"
        '(probabilities,) = session.run(None, {"ids": ids, "is_token": is_token})'
    ),
    "language_model": (
        'decoder = onnxruntime.InferenceSession("decoder.onnx")\n'
        "# token (texts, 1) and what the step before returned, at first of length 0 along axis 2\n"
        "inputs = [one.name for one in decoder.get_inputs()]\n"
        "logits, *past = decoder.run(None, dict(zip(inputs, [token, *past])))"
    ),
    "seq2seq": (
        'encoder = onnxruntime.InferenceSession("encoder.onnx")\n'
        'decoder = onnxruntime.InferenceSession("decoder.onnx")\n'
        "# both of shape (texts, tokens): int64, and bool, true at tokens and false at padding\n"
        'read = encoder.run(None, {"source": source, "is_token": is_token})\n'
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
    architecture = checkpoint.config.architecture
    opener = _OPENERS.get(architecture, "AutoModel")
    use = _USE[target].format(onnx=_ONNX.get(architecture), opener=opener)
    known = {
        k: v for k, v in checkpoint.about.items() if isinstance(v, str | int | float) and v != ""
    }
    if checkpoint.tokenizer is not None:
        known |= {"special tokens": _special(checkpoint.target_tokenizer or checkpoint.tokenizer)}
    if isinstance(checkpoint.tokenizer, SubwordTokenizer):
        known |= {"texts to ids": '`tokenizers.Tokenizer.from_file("tokenizer.json")`'}
    facts = "".join(f"- {key}: {value}\n" for key, value in known.items())
    return (
        f"# {name}, for {target}\n\nExported by Glassformer {__version__} from a "
        f"{type(checkpoint.model).__name__}. Checked after writing: {found}.\n\n"
        f"```python\n{use}\n```\n\n{facts}"
    )


def _special(tokenizer: Tokenizer) -> str:
    """The ids that a program must know: a translator's source ends with `end`, its target begins
    with `start`."""
    special = tokenizer.special
    ids = {"pad": special.pad, "start": special.start, "end": special.end}
    return ", ".join(f"{name} {id_}" for name, id_ in ids.items() if id_ is not None)

"""The README.md of an export: what it is, how to run it, how it was checked."""

from glassformer import __version__
from glassformer.checkpoint import Checkpoint

__all__ = ["card"]

_USE = {
    "onnx": "import onnxruntime\n\nsession = onnxruntime.InferenceSession({files!r}[0])",
    "ctranslate2": (
        "import ctranslate2\n\n"
        'translator = ctranslate2.Translator(".")\n'
        'translator.translate_batch([["tokens", "of", "the", "source"]], beam_size=4)'
    ),
    "hf": "from transformers import {opener}\n\nmodel = {opener}.from_pretrained('.')",
    "torch": 'import torch\n\nprogram = torch.export.load("model.pt2").module()',
}
_OPENERS = {
    "seq2seq": "AutoModelForSeq2SeqLM",
    "language_model": "AutoModelForCausalLM",
    "masked_language_model": "AutoModelForMaskedLM",
}


def card(checkpoint: Checkpoint, name: str, target: str, found: str, files: list[str]) -> str:
    """The text of the card; `found` says how the export was checked."""
    opener = _OPENERS.get(checkpoint.config.architecture, "AutoModel")
    use = _USE[target].format(files=files, opener=opener)
    known = {k: v for k, v in checkpoint.about.items() if isinstance(v, str | int | float)}
    facts = "".join(f"- {key}: {value}\n" for key, value in known.items())
    return (
        f"# {name}, for {target}\n\nExported by Glassformer {__version__} from a "
        f"{type(checkpoint.model).__name__}. Checked after writing: {found}.\n\n"
        f"```python\n{use}\n```\n\n{facts}"
    )

"""Which tokenizer a `tokenizer.json` holds, ours or another program's.

This file knows the kinds by name and leaves what is inside to them.
"""

from os import PathLike

from glassformer.errors import CheckpointError, ConfigError, InputError
from glassformer.files import as_path, read_object
from glassformer.text.characters import CharacterTokenizer
from glassformer.text.subwords import SubwordTokenizer
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.vocabulary import FORMAT
from glassformer.text.words import WordTokenizer

__all__ = ["load_tokenizer"]

_MOST_BYTES = 48 * 2**20  # the largest vocabularies in use (262,000 tokens) take 33 MB
_KINDS = {"words": WordTokenizer.from_json, "characters": CharacterTokenizer.from_json}


def load_tokenizer(path: str | PathLike[str]) -> Tokenizer:
    """The tokenizer that `Tokenizer.save` wrote, or a Hugging Face `tokenizer.json`."""
    file = as_path(path, CheckpointError, "a tokenizer")
    data = read_object(file, error=CheckpointError, most=_MOST_BYTES, what="a tokenizer.json")
    kind = data.get("kind")
    try:
        if "model" in data:
            return SubwordTokenizer.from_json(data)
        if not isinstance(kind, str) or kind not in _KINDS:
            raise InputError(
                'expected "kind": "words" or "characters", or a Hugging Face tokenizer with a '
                f'"model"; received the keys {", ".join(map(repr, data)) or "of nothing":.80}'
            )
        if data.get("format") != FORMAT:
            raise InputError(
                f"expected format {FORMAT}, received {data.get('format')!r:.20}; "
                "a newer Glassformer may have written it"
            )
        return _KINDS[kind](data)
    except (ConfigError, InputError) as error:
        raise CheckpointError(
            "{path} is damaged or not a tokenizer.json: {error}", path=path, error=error
        ) from error

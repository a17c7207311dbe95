"""Texts as the Multi30k papers score them: Moses normalisation, tokenisation, lower case.

sacremoses is imported when the first text comes.
"""

from collections.abc import Sequence

from glassformer.errors import DataError

__all__ = ["lowercase_tokenised"]


def lowercase_tokenised(texts: Sequence[str], language: str) -> list[str]:
    """Tokens separated by spaces, in lower case."""
    try:
        from sacremoses import (  # type: ignore[import-untyped]  # it has no annotations
            MosesPunctNormalizer,
            MosesTokenizer,
        )
    except ImportError:
        raise DataError(
            "the lowercased, tokenised BLEU needs sacremoses: pip install sacremoses"
        ) from None
    normalise = MosesPunctNormalizer(lang=language).normalize
    tokenise = MosesTokenizer(lang=language).tokenize
    return [str(tokenise(normalise(text), return_str=True, escape=False)).lower() for text in texts]

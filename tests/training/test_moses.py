"""The form in which the literature scores Multi30k."""

import builtins
from typing import Any

import pytest

from glassformer.errors import NotInstalledError
from glassformer.training.evaluation import lowercase_tokenised


def test_punctuation_stands_apart_and_case_is_gone() -> None:
    texts = ["Zwei Männer, draußen!", "Er sagt: „Ja“."]
    assert lowercase_tokenised(texts, "de") == [
        "zwei männer , draußen !",
        'er sagt : " ja " .',
    ]


def test_without_sacremoses_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *args: Any, **named: Any) -> Any:
        if name == "sacremoses":
            raise ImportError(name)
        return real(name, *args, **named)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(NotInstalledError, match=r"pip install 'glassformer\[metrics\]'"):
        lowercase_tokenised(["x"], "de")

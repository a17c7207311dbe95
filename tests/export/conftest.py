"""Fixtures of the export tests."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch


@pytest.fixture(autouse=True)
def without_shape_checks(as_users_run_it: None) -> None:
    """Tracing runs the models with symbolic sizes, which shape annotations do not accept."""


@pytest.fixture(autouse=True)
def exporters_without_coverage(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exporters are pure Python, not ours, and several times slower under coverage."""
    monkeypatch.setattr(torch.export, "export", _unmeasured(torch.export.export))
    monkeypatch.setattr(torch.onnx, "export", _unmeasured(torch.onnx.export))


def _unmeasured(exporter: Callable[..., Any]) -> Callable[..., Any]:
    def export(*arguments: Any, **options: Any) -> Any:
        coverage = sys.gettrace()
        sys.settrace(None)
        try:
            return exporter(*arguments, **options)
        finally:
            sys.settrace(coverage)

    return export

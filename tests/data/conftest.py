"""Synthetic corpora for all data tests: none reads a real data set or the user's cache."""

from pathlib import Path

import pytest

from glassformer.data import corpora
from tests.training.made import make_data, registered


@pytest.fixture(scope="session")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    make_data(folder)
    return folder


@pytest.fixture(autouse=True)
def made_data(data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, corpus in registered(data_folder).items():
        monkeypatch.setitem(corpora.CORPORA, name, corpus)
    monkeypatch.setenv("GLASSFORMER_DATA", str(data_folder))
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    return data_folder

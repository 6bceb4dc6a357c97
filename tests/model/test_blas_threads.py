"""The threads that OpenBLAS starts do not spin for long; the environment is afterwards as it was before."""

from __future__ import annotations

import os
import sys

import pytest
from nyala.model.blas_threads import short_spinning

SPINNING = "OPENBLAS_THREAD_TIMEOUT"


def test_threads_of_openblas_sleep_early_if_numpy_is_imported_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SPINNING, raising=False)
    monkeypatch.delitem(sys.modules, "numpy")
    with short_spinning():
        assert int(os.environ[SPINNING]) < 26
    assert SPINNING not in os.environ  # child processes have the default


def test_an_error_ends_the_short_spinning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SPINNING, raising=False)
    monkeypatch.delitem(sys.modules, "numpy")
    with pytest.raises(ImportError), short_spinning():
        raise ImportError
    assert SPINNING not in os.environ


def test_the_environment_decides_on_spinning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SPINNING, "28")
    monkeypatch.delitem(sys.modules, "numpy")
    with short_spinning():
        assert os.environ[SPINNING] == "28"
    assert os.environ[SPINNING] == "28"


def test_an_imported_numpy_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SPINNING, raising=False)
    with short_spinning():
        assert SPINNING not in os.environ

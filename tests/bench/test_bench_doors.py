"""The benchmark of the PostgreSQL protocol does all steps with both servers and leaves nothing behind."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from nyala.bench import doors
from nyala.bench.postgres import is_installed
from rich.console import Console

pytestmark = pytest.mark.slow


def test_all_steps_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("adbc_driver_postgresql")
    monkeypatch.setattr(doors, "CLIENTS", 2)
    found = doors.measure(rows=1000, runs=1, seconds=0.05, work=tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert list(found) == ["nyala", *(["postgresql"] if is_installed() else [])]
    for steps in found.values():
        assert {"look up, 1 client", "insert, 2 clients", "select", "copy out", "copy in"} <= set(steps)
        assert all(len(step.per_second) == 1 and step.best > 0 for step in steps.values())
    out = io.StringIO()
    doors.show(found, Console(file=out, width=160))
    assert "look up, 2 clients" in out.getvalue()
    assert set(doors.plain(found)["nyala"]) == set(found["nyala"])

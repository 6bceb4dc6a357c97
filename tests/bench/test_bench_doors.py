"""The benchmark of the doors does all steps with both servers and leaves nothing behind."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from nyala.bench import door_queries, doors
from nyala.bench.postgres import is_installed
from nyala.errors import InterfaceError
from rich.console import Console

pytestmark = pytest.mark.slow


def test_all_steps_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("adbc_driver_postgresql", "adbc_driver_flightsql", "google.protobuf"):
        pytest.importorskip(name)
    monkeypatch.setattr(doors, "CLIENTS", 2)
    monkeypatch.setattr(door_queries, "WARM_UPS", 0)
    monkeypatch.setattr(door_queries, "QUERIES", door_queries.QUERIES[:3])
    found = doors.measure(doors.Sizes(rows=1000, sf=0.01, runs=1, seconds=0.05), work=tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert list(found.steps) == ["nyala", *(["postgresql"] if is_installed() else [])]
    for steps in found.steps.values():
        assert {"look up, 1 client", "insert, 2 clients", "select", "copy out", "copy in, lineitem"} <= set(steps)
        assert all(len(step.per_second) == 1 and step.best > 0 for step in steps.values())
    assert doors.FLIGHT_SQL in found.steps["nyala"]
    assert [(query.name, query.is_equal, len(query.psycopg)) for query in found.queries] == [
        (name, True, 1) for name in ("q1", "q2", "q3")
    ]
    out = io.StringIO()
    doors.show(found, Console(file=out, width=160))
    assert "look up, 2 clients" in out.getvalue() and "GB/s" in out.getvalue() and "worst" in out.getvalue()
    data = doors.plain(found)
    assert set(data["steps"]["nyala"]) == set(found.steps["nyala"]) and len(data["queries"]) == 3


def test_parts_are_chosen_by_name() -> None:
    assert doors.parts_of("rows, queries") == ["rows", "queries"] and doors.parts_of(None) == doors.PARTS
    with pytest.raises(InterfaceError, match="transfers"):
        doors.parts_of("transfer")


@pytest.mark.parametrize(
    ("theirs", "is_equal"), [([(2, 0.1 + 0.2), (1, None)], True), ([(1, None), (2, 0.4)], False), ([(1, None)], False)]
)
def test_answers_are_compared_in_any_order(theirs: list[tuple[Any, ...]], is_equal: bool) -> None:
    assert door_queries.are_equal([(1, None), (2, 0.3)], theirs) is is_equal

"""Sources of a scan: together they yield the tablet's rows, however it is divided."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from nyala.cluster.tserver.scans import scan_sources as module
from nyala.cluster.tserver.scans.scan_production import Budget, Production
from nyala.cluster.tserver.scans.scan_sources import scan_sources
from nyala.errors import ProtocolError
from nyala.model.predicates import Range
from nyala.model.schema import ColumnSchema, Schema, TableDefinition
from nyala.model.store import Op, ScanSpec, WriteBatch
from nyala.model.types import BIGINT, STRING
from nyala.model.vectors.vector import Batch, Flat
from nyala.storage.database import Database
from nyala.storage.tablet.tablet import Tablet

SCHEMA = Schema(
    (ColumnSchema("a", BIGINT, nullable=False), ColumnSchema("b", STRING, nullable=False), ColumnSchema("v", BIGINT)), 2
)
ROWS = 700_000


def rows_of(numbers: np.ndarray[Any, Any]) -> pa.RecordBatch:
    """Keys (n // 3, n % 3) with the value n."""
    return pa.record_batch(
        {"a": numbers // 3, "b": pa.array(np.array(["x", "y", "z"])[numbers % 3]), "v": numbers.astype(np.int64)}
    )


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    """One tablet with three rowsets that overlap, some deltas, and a MemRowSet."""
    with Database(":memory:", background=False, rowset_bytes=1 << 20) as db:
        table = db.create_table(TableDefinition("t", SCHEMA))
        numbers = np.random.default_rng(1).permutation(ROWS)
        for part in (numbers[: ROWS // 2], numbers[ROWS // 2 : -1000]):
            with db.bulk_loader(table) as loader:
                loader.append(rows_of(np.sort(part)))
                loader.finish()
        db.write(table, WriteBatch(rows_of(numbers[-1000:])))
        db.write(table, WriteBatch(rows_of(np.arange(0, ROWS, 70_001)).select(["a", "b"]), Op.DELETE))
        yield db


@pytest.fixture
def tablet(database: Database) -> Tablet:
    (found,) = database._tablets()
    return found


def deleted() -> set[int]:
    return set(range(0, ROWS, 70_001))


def read(tablet: Tablet, database: Database, spec: ScanSpec, **more: Any) -> list[Batch]:
    production = Production(Budget(1 << 30))
    view = tablet.view(database.now())
    sources = scan_sources(view, spec, parallel=3, watch=production.watch, **more)
    found = []
    with ThreadPoolExecutor(2) as threads:
        production.begin(sources.iterators, threads)
        while (made := production.next(lambda: False)) is not None:
            found.append(made[0])
    return found


def values(batches: list[Batch], column: int = 0) -> list[Any]:
    return [value for batch in batches for value in batch.column(column).to_arrow().to_pylist()]


def test_all_rows_come_once(database: Database, tablet: Tablet) -> None:
    found = values(read(tablet, database, ScanSpec(("v",))))
    assert len(found) == ROWS - len(deleted())
    assert set(found) == set(range(ROWS)) - deleted()


def test_predicates_and_counters(database: Database, tablet: Tablet) -> None:
    spec = ScanSpec(("v",), (Range("v", 1000, 2000),))
    assert sorted(values(read(tablet, database, spec))) == list(range(1000, 2001))
    sources = scan_sources(tablet.view(database.now()), spec, parallel=3, watch=lambda rows: None)
    count = sum(batch.length for source in sources.iterators for batch in source)
    assert sum(counters.rows_returned for counters in sources.counters) == count == 1001


@pytest.mark.parametrize("limit", [1, 999, 200_000])
def test_a_limit_is_the_tablets(database: Database, tablet: Tablet, limit: int) -> None:
    found = values(read(tablet, database, ScanSpec(("v",), limit=limit)))
    assert len(found) == len(set(found)) == limit


@pytest.mark.parametrize("columns", [("v",), ("b", "v"), ("a", "b", "v"), ()])
@pytest.mark.parametrize("after", [(0, "x"), (7, "y"), (100_000, "zz"), (ROWS, "x"), (-5, "")])
def test_an_ordered_scan_goes_on_behind_a_key(
    database: Database, tablet: Tablet, columns: tuple[str, ...], after: tuple[int, str]
) -> None:
    spec = ScanSpec(columns, ordered=True, limit=5000)
    found = read(tablet, database, spec, after_key=after)
    first = bisect_right(range(ROWS), after, key=lambda n: (n // 3, "xyz"[n % 3]))
    expected = sorted(set(range(first, min(first + 5001, ROWS))) - deleted())[:5000]
    assert sum(batch.length for batch in found) == len(expected)
    if columns:
        assert values(found, len(columns) - 1) == expected


@pytest.mark.parametrize("columns", [("v",), ("b", "v"), ()])
@pytest.mark.parametrize("after", [(0, "x"), (7, "y"), (100_000, "zz"), (ROWS, "x"), (-5, "")])
def test_a_descending_scan_goes_on_behind_a_key(
    database: Database, tablet: Tablet, columns: tuple[str, ...], after: tuple[int, str]
) -> None:
    spec = ScanSpec(columns, ordered=True, descending=True, limit=5000)
    found = read(tablet, database, spec, after_key=after)
    stop = bisect_left(range(ROWS), after, key=lambda n: (n // 3, "xyz"[n % 3]))
    expected = sorted(set(range(max(0, stop - 5010), stop)) - deleted(), reverse=True)[:5000]
    assert sum(batch.length for batch in found) == len(expected)
    if columns:
        assert values(found, len(columns) - 1) == expected


def test_keys_that_do_not_fit_are_refused(database: Database, tablet: Tablet) -> None:
    view = tablet.view(database.now())
    with pytest.raises(ProtocolError, match="order"):
        list(scan_sources(view, ScanSpec(("v",)), parallel=1, watch=lambda rows: None, after_key=(1, "x")).iterators[0])
    ordered = ScanSpec(("v",), ordered=True)
    with pytest.raises(ProtocolError, match="2 values"):
        list(scan_sources(view, ordered, parallel=1, watch=lambda rows: None, after_key=(1,)).iterators[0])


def test_a_fragment_makes_a_result_per_source(database: Database, tablet: Tablet) -> None:
    def total(batches: Iterator[Batch]) -> Iterator[Batch]:
        found = sum(int(batch.column(0).values().sum()) for batch in batches)
        yield Batch([Flat(BIGINT, np.array([found], np.int64))], 1)

    expected = ROWS * (ROWS - 1) // 2 - sum(deleted())
    partial = values(read(tablet, database, ScanSpec(("v",)), evaluate=total))
    assert len(partial) == 3
    assert sum(partial) == expected
    limited = values(read(tablet, database, ScanSpec(("v",), ordered=True, limit=4), evaluate=total))
    assert limited == [1 + 2 + 3 + 4]


def test_large_batches_are_cut(database: Database, tablet: Tablet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MESSAGE_BYTES", 10_000)
    found = read(tablet, database, ScanSpec(("a", "b", "v"), (Range("v", 0, 100_000),)))
    assert sorted(values(found, 2)) == sorted(set(range(100_001)) - deleted())
    assert max(module.batch_bytes(batch) for batch in found) < 12_000


def test_what_comes_out_holds_no_files(database: Database, tablet: Tablet) -> None:
    found = read(tablet, database, replace(ScanSpec(("a", "v")), limit=10))
    assert found[0].is_loaded(0)
    assert found[0].is_loaded(1)
    assert not tablet.held_pins()

"""DiskRowSets: scans and look-ups against plain Python, and the work that must not happen."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from columnar_support import WatchedFileSystem, arrow_array, holds, make_schema, make_table, write
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import CorruptionError, DiskError, InternalError
from nyala.model.keys.keys import Keys
from nyala.model.predicates import AnyOf, BitmapFilter, ColumnPredicate, InList, IsNull, Range
from nyala.model.schema import ColumnSchema, Compression, Encoding, Schema
from nyala.model.store import ScanCounters
from nyala.model.types import BIGINT, BINARY, DATE, DECIMAL, DOUBLE, INT, STRING, DataType
from nyala.model.vectors.vector import Const, Dict, Narrow
from nyala.storage.columns import column_writer
from nyala.storage.columns.column_file import ROW_GROUP_ROWS
from nyala.storage.files.memory_filesystem import MemoryFileSystem
from nyala.storage.files.page_cache import PageCache
from nyala.storage.rowsets.disk_rowset import DiskRowSet
from nyala.storage.rowsets.rowset_metadata import RowSetMetadata
from nyala.storage.rowsets.rowset_writer import write_rowsets


def scan(
    rowset: DiskRowSet, schema: Schema, names: list[str], predicates: Any = (), start: int = 0, stop: int | None = None
) -> tuple[list[tuple[Any, ...]], ScanCounters]:
    """All rows as tuples, every column read."""
    counters = ScanCounters()
    rows: list[tuple[Any, ...]] = []
    stop = rowset.row_count if stop is None else stop
    for batch in rowset.scan([schema.column(n) for n in names], predicates, start, stop, counters):
        assert 0 < batch.length <= GROUP
        columns = batch.to_arrow([str(i) for i in range(len(names))]).columns if names else []
        rows += zip(*[c.to_pylist() for c in columns]) if names else [()] * batch.length
    assert counters.rows_returned == len(rows)
    return rows, counters


# ---- three row groups of one table -------------------------------------------------------------------------------

GROUP = ROW_GROUP_ROWS
ROWS = 2 * GROUP + 18_928
SCHEMA = make_schema(
    ("id", BIGINT),
    ("line", INT, False),
    ("day", DATE),
    ("mode", STRING),
    ("note", STRING),
    ("price", DECIMAL(15, 2)),
    ("ratio", DOUBLE),
    ColumnSchema("wide", DECIMAL(30, 2), encoding=Encoding.PLAIN, compression=Compression.NONE),
    key=2,
)
_random = np.random.default_rng(11)
DATA: dict[str, list[Any]] = {
    "id": (np.arange(ROWS) // 3 * 5 - 1000).tolist(),
    "line": (np.arange(ROWS) % 3).tolist(),
    "day": (np.arange(ROWS) // 100 + _random.integers(0, 30, ROWS)).tolist(),
    "mode": [["AIR", "RAIL", "SHIP", None][i] for i in _random.integers(0, 4, ROWS)],
    "note": [f"note {i * 7919 % ROWS:06d}" if i % 7 else None for i in range(ROWS)],
    "price": _random.integers(-500_000, 500_000, ROWS).tolist(),
    "ratio": [None if v < 0.01 else float(v) for v in _random.random(ROWS)],
    "wide": [int(v) * 10**12 for v in _random.integers(-(10**9), 10**9, ROWS)],
}


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return make_table(SCHEMA, DATA)


@pytest.fixture(scope="module")
def big(table: pa.Table) -> DiskRowSet:
    (rowset,) = write(MemoryFileSystem(), SCHEMA, table)
    return rowset


def oracle(names: list[str], predicates: Any, start: int = 0, stop: int = ROWS) -> list[tuple[Any, ...]]:
    rows: Iterable[int] = range(start, stop)
    for predicate in predicates:
        values = DATA[predicate.column]
        # Most values occur many times.
        verdicts = {value: holds(predicate, value) for value in {values[i] for i in rows}}
        rows = [i for i in rows if verdicts[values[i]]]
    rows = list(rows)
    columns = [python_values(name) for name in names]
    return list(zip(*([column[i] for i in rows] for column in columns))) if names else [()] * len(rows)


@cache
def python_values(name: str) -> list[Any]:
    """All values of a column as a scan shows them in Python."""
    values: list[Any] = arrow_array(SCHEMA.column(name).type, DATA[name]).to_pylist()
    return values


BITS = _random.random(2000) < 0.3
CASES: dict[str, list[ColumnPredicate]] = {
    "nothing": [],
    "date range": [Range("day", 200, 260, True, False)],
    "three ranges, as TPC-H Q6": [Range("day", 100, 900), Range("price", 0, 50_000), Range("ratio", None, 0.5)],
    "dictionary equality": [Range.equal("mode", "RAIL")],
    "dictionary list": [InList("mode", ("AIR", "SHIP")), Range("price", None, -400_000)],
    "dictionary range": [Range("mode", "B", "RAIL")],
    "value not in the dictionary": [Range.equal("mode", "TRUCK")],
    "null": [IsNull("mode")],
    "not null": [IsNull("note", negated=True), IsNull("ratio", negated=True)],
    "text range": [Range("note", "note 000100", "note 000120")],
    "text equality": [Range.equal("note", "note 000007")],
    "wide": [Range("wide", 0, 10**20)],
    "bitmap": [BitmapFilter("day", 300, BITS)],
    "bitmap after a selective range": [Range("price", 0, 1000), BitmapFilter("day", 300, BITS)],
    "long list": [InList("price", tuple(range(-400_000, 400_000, 9973)))],
    "key point": [Range.equal("id", 5000), Range.equal("line", 1)],
    "missing key": [Range.equal("id", 5001), Range.equal("line", 1)],
    "key prefix": [Range.equal("id", 109_000)],
    "key range": [Range("id", 100_000, 120_000), Range("price", 0, None)],
    "key range, exclusive": [Range("id", 100_000, 120_000, False, False)],
    "key prefix and range": [Range.equal("id", 5000), Range("line", 1, None)],
    "key range beyond everything": [Range("id", 2**70, None)],
    "key range from below everything": [Range("id", -(2**70), 0)],
    "key list": [InList("id", (-1000, 109_225, 109_230, 249_995))],
    "key bitmap": [BitmapFilter("id", 50_000, BITS)],
    "alternatives of days": [
        AnyOf("day", (Range("day", None, 50), Range("day", 2000, 2010), InList("day", (900, 950))))
    ],
    "alternatives of texts": [AnyOf("note", (Range("note", "note 1", "note 11"), Range.equal("note", "note 200003")))],
    "alternatives of entries": [AnyOf("mode", (Range("mode", "S", None), Range.equal("mode", "AIR")))],
    "a text or NULL": [AnyOf("mode", (Range.equal("mode", "AIR"), IsNull("mode"))), Range("day", 100, 110)],
    "a number or NULL": [AnyOf("ratio", (Range("ratio", 0.99, None), IsNull("ratio")))],
    "a text of a long column or NULL": [AnyOf("note", (Range("note", None, "note 000100"), IsNull("note")))],
    "anything or NULL": [AnyOf("note", (IsNull("note"), IsNull("note", negated=True))), Range("day", 5, 6)],
    "alternatives of wide": [AnyOf("wide", (Range("wide", None, -(10**20)), Range("wide", 9 * 10**20, None)))],
    "key alternatives": [AnyOf("id", (Range("id", 5000, 5010), InList("id", (109_000,)))), Range("line", 1, 2)],
    "key alternatives, exclusive": [AnyOf("id", (Range("id", 500, 510, False, False), Range("id", 900, 905)))],
    "no alternative": [AnyOf("day", ())],
    "contradiction": [Range("id", 500, 400)],
    "second key column only": [Range.equal("line", 2), Range("day", None, 10)],
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_scan_finds_what_plain_python_finds(big: DiskRowSet, case: str) -> None:
    names = ["id", "note", "mode", "price", "wide", "ratio", "day"]
    found, _ = scan(big, SCHEMA, names, CASES[case])
    assert found == oracle(names, CASES[case])


@pytest.mark.parametrize(
    ("start", "stop"), [(0, 1), (GROUP - 1, GROUP + 1), (GROUP + 9, 2 * GROUP + 9), (ROWS - 1, 999_999), (5, 5)]
)
def test_scan_of_a_part(big: DiskRowSet, start: int, stop: int) -> None:
    for predicates in ([], CASES["date range"], CASES["key range"], CASES["text range"]):
        found, _ = scan(big, SCHEMA, ["id", "note"], predicates, start, stop)
        assert found == oracle(["id", "note"], predicates, start, min(stop, ROWS))


def test_an_empty_projection_counts(big: DiskRowSet) -> None:
    found, counters = scan(big, SCHEMA, [], CASES["date range"])
    assert len(found) == len(oracle([], CASES["date range"]))
    found, counters = scan(big, SCHEMA, [])
    assert (len(found), counters.pages_read) == (ROWS, 0)


def test_vectors_stay_encoded(big: DiskRowSet) -> None:
    batches = list(big.scan([SCHEMA.column(n) for n in ("day", "mode")], [], 0, ROWS, ScanCounters()))
    assert [b.length for b in batches] == [GROUP, GROUP, ROWS - 2 * GROUP]
    assert all(isinstance(b.column(0), Narrow) for b in batches)
    modes = [b.column(1) for b in batches]
    assert len({id(m.dictionary) for m in modes if isinstance(m, Dict)}) == 1


# ---- the work that must not happen -------------------------------------------------------------------------------


def watched(table: pa.Table) -> tuple[WatchedFileSystem, DiskRowSet]:
    fs = WatchedFileSystem()
    (rowset,) = write(fs, SCHEMA, table)
    return fs, rowset


def files_read(fs: WatchedFileSystem) -> set[str]:
    """Names of the columns of which pages were read (footers are read in one piece from the end)."""
    pages = [path for path, offset, length in fs.reads if path.endswith("col") and offset and length != 16_384]
    return {SCHEMA.columns[int(path[-8:-4])].name for path in pages}


def test_opening_reads_nothing(table: pa.Table) -> None:
    fs, _ = watched(table)
    assert fs.reads == []


def test_statistics_skip_row_groups(big: DiskRowSet) -> None:
    _, counters = scan(big, SCHEMA, ["price"], [Range("day", 2700, None)])
    assert counters.rowgroups_skipped == 2
    assert counters.rows_considered == ROWS - 2 * GROUP
    assert (counters.pages_read, counters.pages_skipped) == (2, 4)


def test_a_predicate_that_statistics_prove_is_not_evaluated(big: DiskRowSet) -> None:
    _, counters = scan(big, SCHEMA, ["price"], [Range("day", -5, 5000)])
    assert counters.pages_read == 3


def test_key_predicates_become_row_offsets(big: DiskRowSet) -> None:
    found, counters = scan(big, SCHEMA, ["price"], [Range.equal("id", 5000), Range.equal("line", 1)])
    assert len(found) == 1
    # One page of each key column to find the row, one page of the price.
    assert (counters.pages_read, counters.pages_skipped, counters.rows_considered) == (3, 2, 1)


def test_untouched_columns_are_not_read(table: pa.Table) -> None:
    fs, rowset = watched(table)
    columns = [SCHEMA.column(n) for n in ("note", "price", "wide")]
    fs.reads.clear()
    for batch in rowset.scan(columns, [Range("day", 200, 260)], 0, ROWS, ScanCounters()):
        batch.column(1)
        assert [batch.is_loaded(i) for i in range(3)] == [False, True, False]
    assert files_read(fs) == {"day", "price"}


def test_later_predicates_are_not_read_where_nothing_survives(table: pa.Table) -> None:
    fs, rowset = watched(table)
    found, counters = scan(rowset, SCHEMA, ["note"], [Range.equal("day", 3000), Range.equal("note", "x")])
    assert (found, counters.pages_read) == ([], 0)
    missing = min(set(range(1000)) - set(DATA["price"]))
    found, counters = scan(rowset, SCHEMA, ["note"], [Range.equal("price", missing), Range("note", "note 1", None)])
    assert found == []
    assert files_read(fs) == {"price"}
    assert counters.pages_read == 3
    assert counters.pages_skipped == 18  # of the notes, 16,384 rows each: 8 + 8 + 2


def test_pages_of_a_row_group_are_read_only_where_rows_survive(table: pa.Table) -> None:
    _, rowset = watched(table)
    _, counters = scan(rowset, SCHEMA, ["note"], [Range("id", 0, 10), Range("price", None, None)])
    # The key column for either end of the range, and the first page of the notes.
    assert counters.pages_read == 3


def test_several_threads_share_a_rowset(table: pa.Table) -> None:
    (rowset,) = write(MemoryFileSystem(), SCHEMA, table)
    names, predicates = ["id", "mode", "note"], CASES["three ranges, as TPC-H Q6"]
    cuts = [0, 20_000, GROUP, GROUP + 34_464, 2 * GROUP, ROWS]
    with ThreadPoolExecutor(4) as pool:
        parts = pool.map(lambda cut: scan(rowset, SCHEMA, names, predicates, *cut)[0], itertools.pairwise(cuts))
    assert [row for part in parts for row in part] == oracle(names, predicates)


# ---- columns that came later -------------------------------------------------------------------------------------


def test_a_column_without_a_file_reads_as_its_initial_value(table: pa.Table) -> None:
    fs = MemoryFileSystem()
    (old,) = write(fs, SCHEMA, table)
    added = (
        ColumnSchema("tag", STRING, id=90, initial="new", default="newer"),
        ColumnSchema("score", INT, id=91),
    )
    schema = replace(SCHEMA, columns=SCHEMA.columns + added)
    rowset = DiskRowSet.open(fs, "rowsets", schema, old.metadata, PageCache(1 << 24))
    batch = next(rowset.scan([schema.column("tag"), schema.column("score")], [], 0, 10, ScanCounters()))
    assert isinstance(batch.column(0), Const)
    assert batch.to_arrow(["t", "s"]).to_pylist() == [{"t": "new", "s": None}] * 10
    for predicate, rows in [
        (Range.equal("tag", "new"), 10),
        (Range.equal("tag", "old"), 0),
        (IsNull("score"), 10),
        (Range("score", 0, None), 0),
    ]:
        assert len(scan(rowset, schema, ["id"], [predicate], 0, 10)[0]) == rows
    assert 90 not in rowset.statistics()
    dropped = Schema(tuple(c for c in SCHEMA.columns if c.name != "note"), 2)
    reopened = DiskRowSet.open(fs, "rowsets", dropped, old.metadata, PageCache(1 << 24))
    assert scan(reopened, dropped, ["id"], [], 0, 2)[0] == [(-1000,), (-1000,)]


# ---- look-ups ----------------------------------------------------------------------------------------------------

KEYS: list[tuple[tuple[DataType, ...], list[st.SearchStrategy[Any]]]] = [
    ((BIGINT,), [st.integers(-(2**63), 2**63 - 1) | st.integers(-20, 20)]),
    ((INT, INT), [st.integers(-3, 3), st.integers(-(2**31), 2**31 - 1) | st.integers(0, 5)]),
    ((STRING,), [st.text("abé\0", max_size=4)]),
    ((STRING, INT, BINARY), [st.sampled_from(["", "a", "b", "ab"]), st.integers(0, 3), st.binary(max_size=2)]),
    ((DECIMAL(38, 2), STRING), [st.integers(-(10**30), 10**30) | st.integers(0, 3), st.sampled_from(["x", "y"])]),
]


@st.composite
def keyed(draw: st.DrawFn) -> tuple[Schema, list[tuple[Any, ...]], list[tuple[Any, ...]], int, Encoding]:
    types, values = draw(st.sampled_from(KEYS))
    encoding = draw(st.sampled_from([Encoding.AUTO, Encoding.PLAIN]))
    columns = [ColumnSchema(f"k{i}", t, False, encoding=encoding) for i, t in enumerate(types)]
    schema = make_schema(*columns, key=len(columns))
    rows = draw(st.sets(st.tuples(*values), min_size=1, max_size=60))
    order = sorted(rows, key=lambda r: [v.encode() if isinstance(v, str) else v for v in r])
    probes = draw(st.lists(st.tuples(*values) | st.sampled_from(order), max_size=30))
    return schema, order, probes, draw(st.sampled_from([4, 16, GROUP])), encoding


def open_keyed(schema: Schema, rows: list[tuple[Any, ...]], page_rows: int) -> DiskRowSet:
    whole = column_writer.write_column

    def small_pages(*args: Any, **options: Any) -> int:
        return whole(*args, **options, page_rows=page_rows)

    columns = {c.name: [row[i] for row in rows] for i, c in enumerate(schema.columns)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nyala.storage.rowsets.rowset_writer.write_column", small_pages)
        (rowset,) = write(MemoryFileSystem(), schema, make_table(schema, columns))
    return rowset


@settings(max_examples=examples(150), deadline=None)
@given(keyed())
def test_find_agrees_with_a_dictionary(made: Any) -> None:
    schema, rows, probes, page_rows, _ = made
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_writer, "INDEX_ROWS", 8)
        patch.setattr("nyala.storage.predicate_eval.key_index.INDEX_ROWS", 8)
        rowset = open_keyed(schema, rows, page_rows)
        types = tuple(c.type for c in schema.key)
        places = {row: i for i, row in enumerate(rows)}
        expected = [places.get(p, -1) for p in probes]
        keys = Keys.from_values(types, probes)
        assert rowset.find(keys).tolist() == expected
        for few in (0, 1000):  # one by one, and all at once
            patch.setattr("nyala.storage.predicate_eval.key_index.FEW_KEYS", few)
            assert rowset.find(keys).tolist() == expected
        assert (rowset.metadata.min_key, rowset.metadata.max_key) == tuple(
            Keys.from_values(types, [rows[0], rows[-1]]).encoded().to_pylist()
        )
        rowset.check()


@settings(max_examples=examples(150), deadline=None)
@given(keyed(), st.data())
def test_key_predicates_agree_with_plain_python(made: Any, data: Any) -> None:
    schema, rows, probes, page_rows, _ = made
    bounds = probes or rows
    predicates: list[ColumnPredicate] = []
    for i, column in enumerate(schema.columns):
        low, high = data.draw(st.sampled_from(bounds))[i], data.draw(st.sampled_from(bounds))[i]
        kind = data.draw(st.sampled_from(["equal", "range", "low", "high", "list", "none"]))
        inclusive = data.draw(st.booleans())
        made_of = {
            "equal": Range.equal(column.name, low),
            "range": Range(column.name, low, high, inclusive, not inclusive),
            "low": Range(column.name, low, None, inclusive),
            "high": Range(column.name, None, high, True, inclusive),
            "list": InList(column.name, tuple(sorted({low, high}))),
        }
        if kind != "none":
            predicates.append(made_of[kind])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_writer, "INDEX_ROWS", 8)
        patch.setattr("nyala.storage.predicate_eval.key_index.INDEX_ROWS", 8)
        rowset = open_keyed(schema, rows, page_rows)
        batches = rowset.scan(schema.columns, predicates, 0, len(rows), ScanCounters())
        found = [row for batch in batches for row in physical(batch)]
    assert found == [r for r in rows if all(holds(p, r[schema.position(p.column)]) for p in predicates)]


def physical(batch: Any) -> list[tuple[Any, ...]]:
    return list(zip(*[c.values().tolist() for c in batch.columns()]))


def test_find_many_over_several_row_groups(big: DiskRowSet) -> None:
    random = np.random.default_rng(5)
    ids, lines = random.integers(-2000, 260_000, 20_000), random.integers(0, 4, 20_000)
    places = {pair: i for i, pair in enumerate(zip(DATA["id"], DATA["line"]))}
    keys = Keys.from_values((BIGINT, INT), list(zip(ids.tolist(), lines.tolist())))
    assert big.find(keys).tolist() == [places.get(pair, -1) for pair in zip(ids.tolist(), lines.tolist())]


def test_find_consults_the_bloom_filter_before_the_key_columns(table: pa.Table) -> None:  # Kudu paper, insert path
    fs, rowset = watched(table)
    rowset.find(Keys.from_values((BIGINT, INT), [(5000, 1)]))
    fs.reads.clear()
    absent = [(value, 9) for value in range(1_000, 400_000, 30_000)]
    assert (rowset.find(Keys.from_values((BIGINT, INT), absent)) == -1).all()
    assert {path for path, _, _ in fs.reads} == {"rowsets/rowset-00000001.bloom"}


# ---- writing -----------------------------------------------------------------------------------------------------


def test_rows_roll_into_rowsets_of_bounded_size(table: pa.Table) -> None:
    fs = MemoryFileSystem()
    rowsets = write(fs, SCHEMA, table, rowset_bytes=1_500_000)
    assert [r.row_count for r in rowsets] == [GROUP, GROUP, ROWS - 2 * GROUP]
    assert [r.metadata.id for r in rowsets] == [1, 2, 3]
    assert all(r.metadata.newest_undo == 77 for r in rowsets)
    assert all(a.metadata.max_key < b.metadata.min_key for a, b in itertools.pairwise(rowsets))
    assert [row for r in rowsets for row in scan(r, SCHEMA, ["id"])[0]] == oracle(["id"], [])
    for rowset in rowsets:
        names = {*rowset.metadata.column_files.values(), rowset.metadata.bloom_file}
        assert all(f"{rowset.metadata.id:08d}" in name for name in names)
        assert rowset.metadata.data_bytes == sum(fs.open(f"rowsets/{name}").size for name in names)
        assert RowSetMetadata.from_dict(rowset.metadata.to_dict()) == rowset.metadata


def test_statistics_merge_over_rowsets(table: pa.Table, big: DiskRowSet) -> None:
    parts = write(MemoryFileSystem(), SCHEMA, table, rowset_bytes=1_500_000)
    for column, whole in big.statistics().items():
        merged = parts[0].statistics()[column]
        for part in parts[1:]:
            merged = merged.merge(part.statistics()[column])
        assert merged.to_statistics() == whole.to_statistics()
    mode = big.statistics()[SCHEMA.column("mode").id].to_statistics()
    assert (mode.low, mode.high, mode.distinct_count) == ("AIR", "SHIP", 3.0)
    assert mode.null_count == DATA["mode"].count(None)


def test_no_rows_no_rowsets() -> None:
    assert write(MemoryFileSystem(), SCHEMA, SCHEMA.arrow.empty_table()) == []


def test_rows_must_ascend(table: pa.Table) -> None:
    for rows in (table.take([1, 0]), table.take([0, 0])):
        with pytest.raises(InternalError, match="strictly ascending by primary key"):
            write(MemoryFileSystem(), SCHEMA, rows)


def test_a_failing_disk_leaves_no_files(table: pa.Table) -> None:
    class Failing(MemoryFileSystem):
        def create(self, path: str) -> Any:
            if path.endswith("0005.col"):
                raise DiskError("no space left on device")
            return super().create(path)

    fs = Failing()
    with pytest.raises(DiskError, match="no space"):
        write_rowsets(fs, "rowsets", SCHEMA, table.slice(0, 10), next_id=lambda: 1, timestamp=1)
    assert fs.list("rowsets") == []


def test_chunks_views_and_dictionaries_are_taken(table: pa.Table) -> None:
    rows = pa.concat_tables([table.slice(0, 5), table.slice(5, 3), table.slice(8, 2)])
    mode = rows.schema.get_field_index("mode")
    rows = rows.set_column(mode, "mode", rows["mode"].cast(pa.string_view()))
    note = rows.schema.get_field_index("note")
    rows = rows.set_column(note, "note", rows["note"].dictionary_encode())
    (rowset,) = write(MemoryFileSystem(), SCHEMA, rows)
    names = SCHEMA.names
    assert scan(rowset, SCHEMA, names)[0] == oracle(names, [], 0, 10)


# ---- damage ------------------------------------------------------------------------------------------------------


def test_damage_is_found_by_scan_and_by_check(table: pa.Table) -> None:
    fs, rowset = watched(table.slice(0, 100))
    path = f"rowsets/{rowset.metadata.column_files[SCHEMA.column('price').id]}"
    data = fs.get(path)
    data[20] ^= 4
    fs.put(path, data)
    assert len(scan(rowset, SCHEMA, ["day"])[0]) == 100
    with pytest.raises(CorruptionError, match=r"rowset-00000001-column-0005.col: page 0 at offset 16"):
        scan(rowset, SCHEMA, ["price"])
    with pytest.raises(CorruptionError, match="page 0 at offset 16"):
        rowset.check()


def test_check_passes_and_close_gives_everything_back(table: pa.Table) -> None:
    fs = WatchedFileSystem()
    (rowset,) = write(fs, SCHEMA, table.slice(0, 1000))
    rowset.check()
    assert fs.open_files > 0
    rowset.close()
    assert fs.open_files == 0

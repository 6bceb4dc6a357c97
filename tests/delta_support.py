"""Shared by the tests of deltas: types with values, deltas from plain records, and what they make of plain rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from columnar_support import arrow_array
from hypothesis import strategies as st
from nyala.model.predicates import AnyOf, BitmapFilter, ColumnPredicate, InList, IsNull, Range
from nyala.model.schema import ColumnSchema, Encoding
from nyala.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    DataType,
)
from nyala.storage.deltas.deltas import DeltaColumn, DeltaKind, Deltas

Record: TypeAlias = tuple[int, int, DeltaKind, Mapping[int, Any]]
"""Row, timestamp, kind, physical values by column id."""

_SMALL = st.integers(-3, 9)
_TEXTS = st.sampled_from(["", "a", "ab", "b", "zz", "ü", "longer than the others"])
VALUES: list[tuple[DataType, Encoding, st.SearchStrategy[Any]]] = [
    (INT, Encoding.FRAME_OF_REFERENCE, _SMALL | st.sampled_from([-(2**31), 200, 70_000, 2**31 - 1])),
    (BIGINT, Encoding.FRAME_OF_REFERENCE, _SMALL | st.sampled_from([-(2**63), 300, 2**40, 2**63 - 1])),
    (BIGINT, Encoding.PLAIN, _SMALL | st.just(2**62)),
    (SMALLINT, Encoding.RLE, st.sampled_from([0, 0, 0, 7, -7, 300])),
    (DATE, Encoding.BIT_SHUFFLE, st.integers(9000, 9010) | st.just(-5)),
    (TIMESTAMP, Encoding.AUTO, st.integers(10**15, 10**15 + 9) | st.just(0)),
    (BOOLEAN, Encoding.AUTO, st.booleans()),
    (DECIMAL(7, 2), Encoding.AUTO, _SMALL | st.just(10**7 - 1)),
    (DECIMAL(15, 2), Encoding.AUTO, _SMALL | st.just(-(10**14))),
    (DECIMAL(30, 2), Encoding.AUTO, _SMALL | st.just(10**29)),
    (DOUBLE, Encoding.AUTO, st.sampled_from([0.0, 0.5, -1.5, 1e300, float("nan")])),
    (FLOAT, Encoding.PLAIN, st.sampled_from([0.0, 0.5, -1.5, float("nan")])),
    (STRING, Encoding.DICT, _TEXTS),
    (STRING, Encoding.PLAIN, _TEXTS),
    (STRING, Encoding.PREFIX, _TEXTS),
    (BINARY, Encoding.DICT, st.sampled_from([b"", b"a", b"\xff", b"ab"])),
]


def deltas_of(columns: Iterable[ColumnSchema], records: Sequence[Record]) -> Deltas:
    """Deltas from records in any order."""
    records = sorted(records, key=lambda r: r[:2])
    found = {}
    for column in columns:
        places = [i for i, r in enumerate(records) if column.id in r[3]]
        if places:
            values = [records[i][3][column.id] for i in places]
            found[column.id] = DeltaColumn(np.array(places, np.int64), arrow_array(column.type, values))
    return Deltas(
        np.array([r[0] for r in records], np.int64),
        np.array([r[1] for r in records], np.uint64),
        np.array([r[2] for r in records], np.uint8),
        found,
    )


def records_of(runs: Sequence[Deltas]) -> list[tuple[int, int, int, dict[int, Any]]]:
    """The inverse, with Python values, by row and timestamp."""
    found = []
    for run in runs:
        given: list[dict[int, Any]] = [{} for _ in range(len(run))]
        for column, values in run.columns.items():
            for place, value in zip(values.places.tolist(), values.values.to_pylist(), strict=True):
                given[place][column] = value
        found += zip(run.rows.tolist(), run.timestamps.tolist(), run.kinds.tolist(), given, strict=True)
    return sorted(found, key=lambda r: r[:2])


def state_at(
    base: Sequence[Mapping[int, Any]], records: Iterable[Record], timestamp: int
) -> list[dict[int, Any] | None]:
    """Rows after the UPDATEs and DELETEs up to `timestamp`: None for deleted ones."""
    rows: list[dict[int, Any] | None] = [dict(row) for row in base]
    for row, stamp, kind, given in sorted(records, key=lambda r: r[1]):
        state = rows[row]
        if stamp <= timestamp and state is not None:
            rows[row] = None if kind == DeltaKind.DELETE else {**state, **given}
    return rows


def _known(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return values.filter(lambda v: v == v)


@st.composite
def predicates(draw: st.DrawFn, column: ColumnSchema, values: st.SearchStrategy[Any]) -> ColumnPredicate:
    """Any predicate on a column whose values these are."""
    ranges = st.builds(
        Range, st.just(column.name), st.none() | values, st.none() | values, st.booleans(), st.booleans()
    )
    points = values.map(lambda v: Range.equal(column.name, v))
    lists = st.sets(_known(values), max_size=4).map(lambda v: InList(column.name, tuple(sorted(v))))
    nulls = st.builds(IsNull, st.just(column.name), st.booleans())
    forms = [ranges, points, lists, nulls, st.lists(ranges | lists | nulls, max_size=3).map(_any_of(column.name))]
    if column.type.is_integer_like:
        bits = st.lists(st.booleans(), min_size=1, max_size=12).map(lambda b: np.array(b, np.bool_))
        forms.append(st.builds(BitmapFilter, st.just(column.name), st.integers(-4, 4), bits))
    return draw(st.one_of(forms))


def _any_of(name: str) -> Any:
    return lambda members: AnyOf(name, tuple(members))


def python_row(columns: Sequence[ColumnSchema], row: Mapping[int, Any]) -> tuple[Any, ...]:
    """Physical values as the batches of a scan show them in Python."""
    return tuple(pa.scalar(c.type.to_python(row[c.id]), c.type.arrow).as_py() for c in columns)

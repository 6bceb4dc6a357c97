"""One table's statistics, merged from its tablets'.

Rows, NULLs and bounds are combined directly; distinct values are not. If the tablets have sent their sketches, these
are merged, like those of one store's rowsets. Otherwise the number of values that two tablets share is unknown. They
share none if the column decides to which tablet a row belongs, or if their bounds are disjoint; then the counts are
added. In all other cases the tablets are treated as samples of the same values. Of D equally likely values, n rows show
D (1 - (1 - 1/D)^n). The largest tablet's count determines D, and D the number that all rows together show.

    rows       distinct, of 4 tablets    together
    4 x 1000   10 each                   10          few values: each tablet has them all
    4 x 1000   1000 each                 4000        as many as rows: all differ
    4 x 1000   800 each                  1817        D is about 2,150
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

from ....model.schema import Table
from ....model.store import ColumnStatistics, ColumnStorage, TableStatistics, TableStorage
from ....storage.columns.sketch import ColumnSketch, SketchBuilder

_NEARLY_ALL = 0.95
"""Share of the rows from which on every row's value counts as distinct."""


def merged_statistics(
    table: Table, tablets: Sequence[TableStatistics], sketches: Sequence[Mapping[str, ColumnSketch]] = ()
) -> TableStatistics:
    """Returns the statistics of the whole table; `sketches` are those of the same tablets, by column."""
    rows = sum(tablet.row_count for tablet in tablets)
    if len(tablets) == 1:
        return tablets[0]
    dividing = _dividing_columns(table)
    columns: dict[str, ColumnStatistics] = {}
    for column in table.schema.columns:
        builder = SketchBuilder()
        known = [of_tablet[column.name] for of_tablet in sketches if column.name in of_tablet]
        if known and len(known) == len(tablets):
            for sketch in known:
                builder.add_sketch(sketch)
            columns[column.name] = builder.finish().to_statistics()
            continue
        parts = [(t.row_count, t.columns[column.name]) for t in tablets if column.name in t.columns]
        for count, part in parts:
            builder.add(part.low, part.high, part.null_count, count)
        whole = builder.finish()
        distinct = _distinct(parts, column.name in dividing)
        columns[column.name] = ColumnStatistics(whole.low, whole.high, whole.null_count, distinct)
    return TableStatistics(rows, columns)


def _dividing_columns(table: Table) -> Collection[str]:
    """Returns the columns each of whose values occurs in one tablet only: those that partition by themselves."""
    partitions = table.partitions
    hashed = [rule.columns[0] for rule in partitions.hash_rules if len(rule.columns) == 1]
    ranged = () if partitions.range_rule is None else partitions.range_rule.columns
    if len(partitions.hash_rules) + bool(ranged) > 1:
        return ()
    return {*hashed, *(ranged if len(ranged) == 1 else ())}


def _distinct(parts: Sequence[tuple[int, ColumnStatistics]], is_dividing: bool) -> float | None:
    counted = [(max(0, rows - part.null_count), part) for rows, part in parts if part.distinct_count is not None]
    counted = [(rows, part) for rows, part in counted if rows > 0]
    if not counted:
        return 0.0 if parts and all(part.distinct_count is not None for _, part in parts) else None
    if len(counted) < sum(1 for rows, part in parts if rows > part.null_count):
        return None
    counts = [float(part.distinct_count or 0.0) for _, part in counted]
    total = sum(counts)
    rows = sum(count for count, _ in counted)
    if is_dividing or _lie_apart([(part.low, part.high) for _, part in counted]):
        return min(total, float(rows))
    largest, seen = max(((n, count) for (n, _), count in zip(counted, counts)), key=lambda found: found[0])
    return min(max(*counts, _shown(_values(seen, largest), rows)), total)


def _lie_apart(bounds: Sequence[tuple[Any, Any]]) -> bool:
    """True if all intervals are disjoint."""
    if any(low is None or high is None or low != low or high != high for low, high in bounds):
        return False
    ordered = sorted(bounds)
    return all(before[1] < after[0] for before, after in pairwise(ordered))


def _shown(values: float, rows: float) -> float:
    """Expected number of distinct values in `rows` uniform draws from `values` distinct values."""
    return rows if math.isinf(values) else -values * math.expm1(rows * math.log1p(-1 / max(values, 1 + 1e-9)))


def _values(seen: float, rows: float) -> float:
    """Returns the number of distinct values from which `rows` draws show `shown` of them: the inverse of `_shown`."""
    if seen >= _NEARLY_ALL * rows:
        return math.inf
    low, high = max(seen, 1.0), max(seen, 1.0) * 64
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _shown(middle, rows) < seen else (low, middle)
    return high


def merged_storage(table: Table, tablets: Sequence[tuple[int, TableStorage]]) -> TableStorage:
    """Returns the storage of a table, from its tablets' (rows, storage); widths are averages over the rows."""
    columns: dict[str, ColumnStorage] = {}
    for column in table.schema.columns:
        parts = [(rows, lies.columns[column.name]) for rows, lies in tablets if column.name in lies.columns]
        encodings = tuple(sorted({encoding for _, part in parts for encoding in part.encodings}))
        columns[column.name] = ColumnStorage(sum(part.bytes for _, part in parts), encodings, _width(parts))
    return TableStorage(
        len(tablets), sum(lies.rowsets for _, lies in tablets), sum(lies.bytes for _, lies in tablets), columns
    )


def _width(parts: Sequence[tuple[int, ColumnStorage]]) -> float | None:
    known = [(max(rows, 1), part.width) for rows, part in parts if part.width is not None]
    return sum(rows * width for rows, width in known) / sum(rows for rows, _ in known) if known else None


def summed(numbers: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Returns the sums of several tablets' numbers, name by name."""
    return {name: sum(n.get(name, 0) for n in numbers) for name in dict.fromkeys(k for n in numbers for k in n)}

"""Compares one engine's answer with the reference's: row by row where the ORDER BY decides, else as a multiset.

A statement with a LIMIT may cut through rows that its ORDER BY leaves tied, and each engine may keep others of them.
Such an answer is compared with the reference's answer *without* the LIMIT: each row must be there, as often at most,
and the columns of the ORDER BY must have the values of the rows at the same places.

Large answers are compared by columns, after sorting both by their exact columns.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import exp

from ...model.lazy_dataclass import dataclass
from .model import Row

RELATIVE_TOLERANCE: Final = 1e-9
"""Decimals are exact in nyala; DuckDB divides and averages them as doubles, of which 15 digits are good, and the
rounding errors of a long sum cost some more."""
BY_COLUMNS: Final = 1_000
"""Answers with more rows are compared by columns. Row by row is quadratic for rows of numbers alone, which have no
exact cell to find their partners by."""


@dataclass(frozen=True, slots=True)
class Statement:
    """The parts of a query that decide the comparison: `unlimited` is the text without LIMIT and OFFSET, `order` the
    ordered output columns."""

    unlimited: str
    limit: int | None
    order: tuple[int, ...]
    offset: int = 0


def take_apart(text: str) -> Statement:
    """The parts of a statement that decide what may differ; ORDER BY keys count up to the first that is no output."""
    tree = sqlglot.parse_one(text, dialect="duckdb")
    limit, offset = tree.args.pop("limit", None), tree.args.pop("offset", None)
    outputs = [_plain(item) for item in tree.selects]
    names = [item.alias_or_name.lower() for item in tree.selects]
    order: list[int] = []
    for key in (item.this for item in tree.args["order"].expressions) if tree.args.get("order") else ():
        if isinstance(key, exp.Literal):
            order.append(int(key.this) - 1)
        elif _plain(key) in outputs:
            order.append(outputs.index(_plain(key)))
        elif isinstance(key, exp.Column) and names.count(key.name.lower()) == 1:
            order.append(names.index(key.name.lower()))
        else:
            break
    if any(item.is_star for item in tree.selects):
        order = []
    unlimited = text if limit is None else text[: text.upper().rindex("LIMIT")]
    return Statement(
        unlimited,
        None if limit is None else int(limit.expression.this),
        tuple(order),
        0 if offset is None else int(offset.expression.this),
    )


def _plain(expression: exp.Expression) -> str:
    return str(expression.unalias().sql()).lower()


def compare(text: str, ours: pa.Table, theirs: pa.Table, run: Callable[[str], pa.Table]) -> str | None:
    """The difference between two answers to `text`, the reference's text; None if they are equal.

    Parameters
    ----------
    theirs : pa.Table
        The reference's answer.
    run : callable
        Runs a statement on the reference; called with the text without LIMIT if the answers differ by more than
        rounding, which tied rows may explain.
    """
    if ours.num_columns != theirs.num_columns:
        return f"{ours.num_columns} columns instead of {theirs.num_columns}"
    statement = take_apart(text)
    if max(ours.num_rows, theirs.num_rows) > BY_COLUMNS:
        return difference_by_columns(ours, theirs, statement.order)
    found = rows_of(ours)
    plain = Statement(text, None, statement.order)
    wrong = difference(plain, found, rows_of(theirs))
    if wrong is None or statement.limit is None:
        return wrong
    return difference(statement, found, rows_of(run(statement.unlimited)))


def rows_of(table: pa.Table) -> list[Row]:
    """The rows as tuples of Python values."""
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def difference(statement: Statement, ours: list[Row], theirs: list[Row]) -> str | None:
    """The first difference, as a sentence; `theirs` is the other engine's answer to the unlimited statement."""
    shown = theirs[statement.offset :]
    count = len(shown) if statement.limit is None else min(len(shown), statement.limit)
    if len(ours) != count:
        return f"{len(ours)} rows instead of {count}"
    for number, (a, b) in enumerate(zip(ours, shown, strict=False), 1):
        for column in statement.order:
            if not same(a[column], b[column]):
                return f"row {number}, column {column + 1}: {a[column]!r} instead of {b[column]!r} in {a} and {b}"
    places: defaultdict[Row, list[Row]] = defaultdict(list)
    for row in theirs:
        places[_exact(row)].append(row)
    for row in ours:
        candidates = places[_exact(row)]
        found = next((other for other in candidates if all(map(same, row, other))), None)
        if found is None:
            return f"{row} is not among the other's rows; nearest: {candidates[:3]}"
        candidates.remove(found)
    return None


def same(a: Any, b: Any) -> bool:
    """Equal, or a number and a double that differ by the double's rounding errors."""
    if a is None or b is None or not (isinstance(a, float) or isinstance(b, float)):
        return bool(_normal(a) == _normal(b))
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return math.isclose(a, b, rel_tol=RELATIVE_TOLERANCE, abs_tol=RELATIVE_TOLERANCE)


def _normal(cell: Any) -> Any:
    """A date as the timestamp of its midnight: engines differ in the type that date_trunc returns."""
    if isinstance(cell, datetime.date) and not isinstance(cell, datetime.datetime):
        return datetime.datetime(cell.year, cell.month, cell.day)
    return cell


def _exact(row: Row) -> Row:
    """The cells that must be equal: texts, dates, NULLs, but no numbers, whose types may differ."""
    return tuple("number" if isinstance(cell, int | float | decimal.Decimal) else _normal(cell) for cell in row)


def difference_by_columns(ours: pa.Table, theirs: pa.Table, order: Sequence[int] = ()) -> str | None:
    """The first difference of two answers as multisets, and of the columns `order` at each place, as a sentence.

    Both are sorted by texts, dates and integers first, by other numbers last: rows that agree in all exact columns
    and differ by rounding may be paired wrongly, which only an answer without a key can show.
    """
    if ours.num_rows != theirs.num_rows:
        return f"{ours.num_rows} rows instead of {theirs.num_rows}"
    if not ours.num_rows:
        return None
    a, b = ([_comparable(column) for column in table.columns] for table in (ours, theirs))
    is_float = [x.dtype.kind == "f" or y.dtype.kind == "f" for (x, _), (y, _) in zip(a, b, strict=True)]
    for number in order:
        if (wrong := _difference_of_column(a[number], b[number], is_float[number])) is not None:
            return f"column {number + 1}, {wrong}"
    first, second = (_sorted_columns(columns, is_float) for columns in (a, b))
    for number, (x, y) in enumerate(zip(first, second, strict=True)):
        if (wrong := _difference_of_column(x, y, is_float[number])) is not None:
            return f"column {number + 1}, sorted, {wrong}"
    return None


_Column: TypeAlias = tuple[np.ndarray, np.ndarray]
"""The values of a column, and which of them are NULL."""


def _difference_of_column(a: _Column, b: _Column, is_float: bool) -> str | None:
    (x, x_null), (y, y_null) = a, b
    if not np.array_equal(x_null, y_null):
        return f"row {int(np.argmax(x_null != y_null)) + 1}: NULL in one of them"
    if is_float:
        x, y = x.astype(np.float64), y.astype(np.float64)
        equal = np.isclose(x, y, rtol=RELATIVE_TOLERANCE, atol=RELATIVE_TOLERANCE, equal_nan=True)
    else:
        equal = x == y
    equal = equal | x_null
    if equal.all():
        return None
    place = int(np.argmin(equal))
    return f"row {place + 1}: {x[place]!r} instead of {y[place]!r}"


def _comparable(column: pa.ChunkedArray) -> _Column:
    """The values as floats, integers or codes of texts that are equal in both tables, and a mask of NULLs."""
    whole = column.combine_chunks()
    null = np.asarray(whole.is_null())
    type_ = whole.type
    if pa.types.is_dictionary(type_):
        whole = whole.cast(type_.value_type)
        type_ = whole.type
    if pa.types.is_decimal(type_):
        whole = whole.cast(pa.float64())
    elif pa.types.is_date32(type_) or pa.types.is_timestamp(type_):
        whole = whole.cast(pa.timestamp("us")).cast(pa.int64())
    elif pa.types.is_boolean(type_):
        whole = whole.cast(pa.int8())
    if pa.types.is_floating(whole.type) or pa.types.is_integer(whole.type):
        return pc.fill_null(whole, 0).to_numpy(zero_copy_only=False), null
    texts = pc.fill_null(whole.cast(pa.string()), "").to_numpy(zero_copy_only=False)
    return texts, null


def _sorted_columns(columns: list[_Column], is_float: list[bool]) -> list[_Column]:
    """All columns in the order of the exact ones first."""
    keys = sorted(range(len(columns)), key=lambda place: is_float[place])
    sortable = pa.table({str(place): pa.array(columns[place][0], mask=columns[place][1]) for place in keys})
    order = pc.sort_indices(sortable, [(name, "ascending") for name in sortable.column_names])
    taken = order.to_numpy()
    return [(values[taken], null[taken]) for values, null in columns]

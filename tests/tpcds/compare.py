"""Comparison of two engines' answers: row by row where the ORDER BY decides, as multisets where it does not.

A statement with a LIMIT may cut through rows that its ORDER BY leaves tied, and each engine may keep others of them. So
the answer is compared with the other engine's answer *without* the LIMIT: each row must be there, as often at most, and
the columns of the ORDER BY must have the values of the first rows, in their order.
"""

from __future__ import annotations

import decimal
import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, TypeAlias

import sqlglot
from sqlglot import exp

Row: TypeAlias = tuple[Any, ...]

RELATIVE_TOLERANCE = 1e-9
"""Decimals are exact in nyala; DuckDB divides and averages them as doubles, of which 15 digits are good, and the
rounding errors of a long sum eat some more."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A query's text, taken apart: `unlimited` is the text without the LIMIT, `order` the ordered output columns."""

    unlimited: str
    limit: int | None
    order: tuple[int, ...]


def take_apart(text: str) -> Statement:
    """The parts of a statement that decide what may differ; ORDER BY keys count up to the first that is no output."""
    tree = sqlglot.parse_one(text, dialect="duckdb")
    limit = tree.args.pop("limit", None)
    outputs = [_plain(item) for item in tree.selects]
    names = [item.alias_or_name for item in tree.selects]
    order: list[int] = []
    for key in (item.this for item in tree.args["order"].expressions) if tree.args.get("order") else ():
        if isinstance(key, exp.Literal):
            order.append(int(key.this) - 1)
        elif _plain(key) in outputs:
            order.append(outputs.index(_plain(key)))
        elif isinstance(key, exp.Column) and names.count(key.name) == 1:
            order.append(names.index(key.name))
        else:
            break
    unlimited = text if limit is None else text[: text.upper().rindex("LIMIT")]
    return Statement(unlimited, None if limit is None else int(limit.expression.this), tuple(order))


def _plain(expression: exp.Expression) -> str:
    return expression.unalias().sql().lower()


def difference(statement: Statement, ours: list[Row], theirs: list[Row]) -> str | None:
    """Description of the difference, or None; `theirs` is the other engine's answer to the unlimited statement."""
    count = len(theirs) if statement.limit is None else min(len(theirs), statement.limit)
    if len(ours) != count:
        return f"{len(ours)} rows instead of {count}"
    for number, (a, b) in enumerate(zip(ours, theirs, strict=False), 1):
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
        return bool(a == b)
    return math.isclose(a, b, rel_tol=RELATIVE_TOLERANCE, abs_tol=RELATIVE_TOLERANCE)


def _exact(row: Row) -> Row:
    """The cells that must be equal: texts, dates, NULLs, but no numbers, whose types may differ."""
    return tuple("number" if isinstance(cell, int | float | decimal.Decimal) else cell for cell in row)

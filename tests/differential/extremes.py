"""Values at the ends of every type, and queries that only compare them.

A query that compares, sorts and groups, but never computes, means the same over the ranks of its values:

    nyala   v: -9223372036854775808, NULL, 9223372036854775807        DuckDB   v: 0, NULL, 2

So a second engine answers for any type, also where it does not have the type, its order or its range.
"""

from __future__ import annotations

import datetime
import math
import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

_WIDE = Context(prec=60)


@dataclass(frozen=True, repr=False)
class Extreme:
    """A type, the texts of its values as SQL literals, and what a value from a result is compared by."""

    name: str
    literals: tuple[str, ...]
    key: Callable[[Any], Any]
    value: Callable[[str], Any]
    stored: str = ""
    """The type of the column, where the type itself cannot be stored."""
    encodings: tuple[str, ...] = ("AUTO",)

    def key_of(self, literal: str) -> Any:
        """The key of a literal's value."""
        return self.key(self.value(literal))

    def __repr__(self) -> str:
        return self.name

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.name)


def _number(value: Any) -> Any:
    return Decimal(value)


def _float_key(value: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(value) else (False, value + 0.0)


def _span(literal: str) -> datetime.timedelta:
    months, days, micros = (
        int(n) for n in literal.split("'")[1].replace("microseconds", "").split() if n.strip("+-").isdigit()
    )
    return datetime.timedelta(days=30 * months + days, microseconds=micros)


_CODES = ("AUTO", "FRAME_OF_REFERENCE", "BIT_SHUFFLE", "RLE", "PLAIN")


def _integers(name: str, bits: int) -> Extreme:
    top = 1 << (bits - 1)
    values = (-top, -top + 1, -(top >> 1), -2, -1, 0, 1, 5, top >> 1, top - 2, top - 1)
    return Extreme(name, tuple(map(str, values)), _number, Decimal, encodings=_CODES)


def _decimals(precision: int, scale: int) -> Extreme:
    top = 10**precision - 1
    unscaled = {
        -top,
        -top + 1,
        -(2**63),
        -(2**63) - 1,
        -(10**scale),
        -5,
        -1,
        0,
        1,
        5,
        10**scale,
        2**63 - 1,
        2**63,
        2**64,
        top - 1,
        top,
    }
    values = sorted(u for u in unscaled if abs(u) <= top)
    texts = tuple(f"{Decimal(u).scaleb(-scale, _WIDE):.{scale}f}" for u in values)
    return Extreme(
        f"DECIMAL({precision},{scale})", texts, _number, Decimal, encodings=_CODES[:1] if precision > 18 else _CODES
    )


def _floats(name: str, values: Sequence[float]) -> Extreme:
    def value(literal: str) -> float:
        return float(literal.split("'")[1])

    texts = tuple(f"CAST('{v!r}' AS {name})" for v in values)
    return Extreme(name, texts, _float_key, value)


def _single(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


_FLOATS = (-math.inf, -2.5, -5e-324, -0.0, 0.0, 5e-324, 1.0, 2.5, math.inf, math.nan)
_DATES = ("0001-01-01", "0001-01-02", "1969-12-31", "1970-01-01", "2024-02-29", "9999-12-30", "9999-12-31")
_TIMES = (
    *(f"{day} 00:00:00" for day in _DATES),
    "0001-01-01 00:00:00.000001",
    "1970-01-01 00:00:00.000001",
    "9999-12-31 23:59:59.999999",
)
_TEXTS = (
    "",
    "\x01",
    "a",
    "a\x01",
    "ab",
    "abcdefgh",
    "abcdefghi",
    "b",
    "Z",
    "é",
    "\uffff",
    "\U0001f600",
    "\U0010ffff",
    "a" * 70,
    "a" * 70 + "b",
)
_SPANS = (
    "0 0 0",
    "1 0 0",
    "0 30 0",
    "0 31 0",
    "0 0 1",
    "0 0 -1",
    "-1 30 0",
    "120000 0 0",
    "-120000 0 0",
    "0 -3600000 0",
    "0 0 86400000000",
)


def _timestamp(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return value
    return datetime.datetime.combine(value, datetime.time())


FAMILIES: dict[str, tuple[Extreme, ...]] = {
    "exact": (
        _integers("TINYINT", 8),
        _integers("SMALLINT", 16),
        _integers("INT", 32),
        _integers("BIGINT", 64),
        _decimals(1, 1),
        _decimals(9, 2),
        _decimals(18, 0),
        _decimals(18, 4),
        _decimals(18, 18),
        _decimals(19, 0),
        _decimals(38, 0),
        _decimals(38, 10),
        _decimals(38, 38),
    ),
    "float": (
        _floats("DOUBLE", (*_FLOATS, -1.7976931348623157e308, 1.7976931348623157e308)),
        _floats("FLOAT", (-math.inf, -0.0, 0.0, 2.5, _single(3.4e38), _single(-3.4e38), math.inf, math.nan)),
    ),
    "time": (
        Extreme(
            "DATE",
            tuple(f"DATE '{d}'" for d in _DATES),
            _timestamp,
            lambda s: datetime.date.fromisoformat(s.split("'")[1]),
            encodings=_CODES,
        ),
        Extreme(
            "TIMESTAMP",
            tuple(f"TIMESTAMP '{t}'" for t in _TIMES),
            _timestamp,
            lambda s: datetime.datetime.fromisoformat(s.split("'")[1]),
            encodings=_CODES,
        ),
    ),
    "text": (
        Extreme(
            "STRING",
            tuple(f"'{t}'" for t in _TEXTS),
            str.encode,
            lambda s: s[1:-1],
            encodings=("AUTO", "DICT", "PREFIX", "PLAIN"),
        ),
    ),
    "binary": (
        Extreme(
            "BINARY",
            ("x''", "x'00'", "x'0000'", "x'ff'", "x'ff00'", "x'7fffffffffffffff'", "x'ffffffffffffffff'"),
            bytes,
            lambda s: bytes.fromhex(s[2:-1]),
        ),
    ),
    "boolean": (
        Extreme("BOOLEAN", ("FALSE", "TRUE"), bool, lambda s: s == "TRUE", encodings=("AUTO", "RLE", "PLAIN")),
    ),
    "interval": (
        Extreme(
            "INTERVAL",
            tuple("INTERVAL '{} months {} days {} microseconds'".format(*s.split()) for s in _SPANS),
            lambda v: v,
            _span,
            stored="STRING",
        ),
    ),
}

DIRECTIONS = ("", " DESC", " NULLS FIRST", " NULLS LAST", " DESC NULLS FIRST", " DESC NULLS LAST")

QUERIES = (
    # Output columns v... are values, n... numbers. t has (k, g, v, w), u likewise; x and y are constants.
    "SELECT v AS v1, k AS n1 FROM {t} ORDER BY v{d}, k",
    "SELECT v AS v1 FROM {t} ORDER BY v{d}",
    "SELECT v AS v1 FROM {t} ORDER BY v{d} LIMIT {n}",
    "SELECT v AS v1, w AS v2, k AS n1 FROM {t} ORDER BY v{d}, w{e}, k LIMIT {n}",
    "SELECT v AS v1, w AS v2 FROM {t} ORDER BY w{d}, v{e}",
    "SELECT k AS n1 FROM {t} WHERE v IS NOT NULL ORDER BY v{d}, k",
    "SELECT k AS n1 FROM {t} ORDER BY g, v{d}, k",
    "SELECT DISTINCT v AS v1 FROM {t}",
    "SELECT DISTINCT v AS v1, w AS v2, g AS n1 FROM {t}",
    "SELECT DISTINCT ON (g) g AS n1, v AS v1 FROM {t} ORDER BY g, v{d}",
    "SELECT DISTINCT ON (v) v AS v1, k AS n1 FROM {t} ORDER BY v{d}, k",
    "SELECT v AS v1, count(*) AS n1 FROM {t} GROUP BY v",
    "SELECT v AS v1, w AS v2, count(*) AS n1 FROM {t} GROUP BY v, w",
    "SELECT v AS v1, g AS n1, count(w) AS n2 FROM {t} GROUP BY v, g",
    "SELECT v AS v1, w AS v2, count(*) AS n1 FROM {t} GROUP BY ROLLUP (v, w)",
    "SELECT count(DISTINCT v) AS n1, count(DISTINCT w) AS n2 FROM {t}",
    "SELECT g AS n1, count(DISTINCT v) AS n2 FROM {t} GROUP BY g",
    "SELECT v AS v1, count(DISTINCT w) AS n2 FROM {t} GROUP BY v",
    "SELECT count(*) AS n1 FROM (SELECT DISTINCT v FROM {t}) q",
    "SELECT count(*) AS n1, count(w) AS n2 FROM {t} GROUP BY v, w",
    "SELECT count(*) AS n1 FROM {t} GROUP BY v HAVING count(*) > 1",
    "SELECT min(v) AS v1, max(v) AS v2 FROM {t}",
    "SELECT g AS n1, min(v) AS v1, max(w) AS v2 FROM {t} GROUP BY g",
    "SELECT g AS n1, min_by(k, v) IS NULL AS n2, max_by(v, v) AS v1, min_by(v, v) AS v2 FROM {t} GROUP BY g",
    "SELECT k AS n1, rank() OVER (ORDER BY v{d}) AS n2, dense_rank() OVER (ORDER BY w{e}) AS n3 FROM {t}",
    "SELECT k AS n1, count(*) OVER (PARTITION BY v) AS n2 FROM {t}",
    "SELECT k AS n1, row_number() OVER (PARTITION BY v, w ORDER BY k) AS n2 FROM {t}",
    "SELECT k AS n1, rank() OVER (PARTITION BY g ORDER BY v{d}, w{e}) AS n2 FROM {t}",
    "SELECT k AS n1, first_value(v) OVER (PARTITION BY w ORDER BY v{d}) AS v1 FROM {t}",
    "SELECT k AS n1, count(*) OVER (ORDER BY v{d} RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS n2 FROM {t}",
    "SELECT k AS n1, count(*) OVER (ORDER BY v{d} RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS n2 FROM {t}",
    "SELECT k AS n1, count(v) OVER (ORDER BY v{d} GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS n2 FROM {t}",
    "SELECT k AS n1, max(v) OVER (PARTITION BY g ORDER BY k ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS v1 FROM {t}",
    "SELECT k AS n1, min(w) OVER (ORDER BY k ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS v1 FROM {t}",
    "SELECT k AS n1, lag(v) OVER (ORDER BY v{d}, k) AS v1 FROM {t}",
    "SELECT v AS v1 FROM {t} UNION SELECT v FROM {u}",
    "SELECT v AS v1, w AS v2 FROM {t} UNION SELECT w, v FROM {u}",
    "SELECT v AS v1 FROM {t} UNION ALL SELECT v FROM {u} ORDER BY v1{d}",
    "SELECT v AS v1 FROM {t} INTERSECT SELECT v FROM {u}",
    "SELECT v AS v1 FROM {t} INTERSECT ALL SELECT w FROM {u}",
    "SELECT v AS v1 FROM {t} EXCEPT SELECT v FROM {u}",
    "SELECT v AS v1, w AS v2 FROM {t} EXCEPT ALL SELECT v, w FROM {u}",
    "SELECT a.k AS n1, b.k AS n2, a.v AS v1, b.v AS v2 FROM {t} a JOIN {u} b ON a.v = b.v",
    "SELECT a.k AS n1, b.k AS n2 FROM {t} a JOIN {t} b ON a.v = b.w",
    "SELECT a.k AS n1, b.k AS n2 FROM {t} a JOIN {u} b ON a.v = b.v AND a.w = b.w",
    "SELECT a.k AS n1, b.k AS n2 FROM {t} a JOIN {u} b ON a.v = b.v AND a.g = b.g",
    "SELECT a.k AS n1, b.k AS n2, a.v AS v1 FROM {t} a LEFT JOIN {u} b ON a.v = b.v",
    "SELECT a.k AS n1, b.k AS n2, b.v AS v1 FROM {t} a RIGHT JOIN {u} b ON a.v = b.v AND a.g = b.g",
    "SELECT a.k AS n1, b.k AS n2 FROM {t} a FULL JOIN {u} b ON a.v = b.v",
    "SELECT a.k AS n1, b.k AS n2 FROM {t} a JOIN {u} b ON a.v < b.v",
    "SELECT a.k AS n1, b.k AS n2 FROM {t} a LEFT JOIN {u} b ON a.v >= b.v AND a.g = b.g",
    "SELECT a.k AS n1, b.k AS n2 FROM {t} a JOIN {u} b ON a.v IS NOT DISTINCT FROM b.v",
    "SELECT a.k AS n1, b.k AS n2 FROM {t} a JOIN {u} b ON a.v BETWEEN b.v AND b.w",
    "SELECT a.k AS n1, b.k AS n2 FROM {t} a JOIN {u} b ON a.v = b.v WHERE b.g = 1",
    "SELECT a.k AS n1 FROM {t} a JOIN (SELECT {y} AS c, k FROM {u}) b ON a.v = b.c AND a.g < b.k",
    "SELECT a.k AS n1 FROM {t} a LEFT JOIN (VALUES ({y})) AS b (c) ON a.v = b.c WHERE b.c IS NULL",
    "SELECT k AS n1 FROM {t} WHERE v IN (SELECT v FROM {u})",
    "SELECT k AS n1 FROM {t} WHERE v NOT IN (SELECT v FROM {u} WHERE v IS NOT NULL)",
    "SELECT k AS n1 FROM {t} WHERE v NOT IN (SELECT w FROM {u})",
    "SELECT k AS n1 FROM {t} a WHERE EXISTS (SELECT 1 FROM {u} b WHERE a.v = b.w)",
    "SELECT k AS n1 FROM {t} a WHERE NOT EXISTS (SELECT 1 FROM {u} b WHERE a.v = b.w AND a.g = b.g)",
    "SELECT k AS n1 FROM {t} WHERE v >= ALL (SELECT v FROM {u} WHERE v IS NOT NULL)",
    "SELECT k AS n1 FROM {t} WHERE v < ANY (SELECT v FROM {u})",
    "SELECT k AS n1, (SELECT max(b.v) FROM {u} b WHERE b.v <= a.v) AS v1 FROM {t} a",
    "SELECT k AS n1 FROM {t} WHERE v {o} {x}",
    "SELECT k AS n1 FROM {t} WHERE v {o} {y}",
    "SELECT k AS n1 FROM {t} WHERE NOT (v {o} {y})",
    "SELECT k AS n1 FROM {t} WHERE v {o} w",
    "SELECT k AS n1, v {o} w AS n2, v {o} {y} AS n3 FROM {t}",
    "SELECT k AS n1, v IS DISTINCT FROM {y} AS n2 FROM {t}",
    "SELECT k AS n1, v IN ({x}, {y}, w) AS n2, v NOT IN ({y}, {x}) AS n3 FROM {t}",
    "SELECT k AS n1 FROM {t} WHERE v IN ({x}, {y})",
    "SELECT k AS n1 FROM {t} WHERE v NOT IN ({x}, {y})",
    "SELECT k AS n1 FROM {t} WHERE v BETWEEN {x} AND {y}",
    "SELECT k AS n1, v BETWEEN {y} AND {x} AS n2 FROM {t}",
    "SELECT k AS n1 FROM {t} WHERE v > {x} AND v < {y} ORDER BY v{d}, k",
    "SELECT k AS n1 FROM {t} WHERE v = {x} OR v > {y}",
    "SELECT k AS n1, CASE v WHEN {y} THEN 1 WHEN w THEN 2 ELSE 3 END AS n2 FROM {t}",
    "SELECT k AS n1, nullif(v, {y}) IS NULL AS n2 FROM {t}",
    "SELECT count(*) AS n1 FROM {t} WHERE v {o} {x} AND w {o} {x}",
)
OPERATORS = ("=", "<>", "<", "<=", ">", ">=")


@dataclass(frozen=True)
class Tables:
    """Two tables, t of type `own` and u of type `other`; the cells are numbers of literals, None for NULL."""

    own: Extreme
    other: Extreme
    t: Sequence[tuple[int | None, int | None, int]]
    u: Sequence[tuple[int | None, int | None, int]]

    def ranks(self) -> dict[Any, int]:
        """The rank of each value's key among those of both types."""
        keys = {e.key_of(literal) for e in (self.own, self.other) for literal in e.literals}
        return {key: rank for rank, key in enumerate(sorted(keys))}

    def rows(self, name: str, cell: Callable[[Extreme, str], str]) -> list[str]:
        """The table's rows as texts for VALUES; `cell` writes a value that is given by its literal."""
        kind, rows = (self.own, self.t) if name == "t" else (self.other, self.u)

        def written(place: int | None) -> str:
            return "NULL" if place is None else cell(kind, kind.literals[place % len(kind.literals)])

        return [f"({k}, {g}, {written(v)}, {written(w)})" for k, (v, w, g) in enumerate(rows)]


def filled(query: str, seed: int, own: Extreme, other: Extreme) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The query with its choices made but for the tables and the constants, and these: (placeholder, literal)."""
    chosen = random.Random(seed)
    text = query.replace("{d}", chosen.choice(DIRECTIONS)).replace("{e}", chosen.choice(DIRECTIONS))
    text = text.replace("{n}", str(chosen.randint(1, 4))).replace("{o}", chosen.choice(OPERATORS))
    return text, (("{x}", chosen.choice(own.literals)), ("{y}", chosen.choice(other.literals)))

"""Every scalar function of the registry over columns of a million values, hardly one of them twice.

    call      strpos(name, 'ko')                     one query: SELECT sum(strpos(name, 'ko')) FROM samples
    answer    numbers summed, texts, days and times by their maximum, truth values counted

A function whose kernel runs once per distinct value, or in Python, shows here: the suites of queries call few
functions, and mostly over columns of few values. A function that DuckDB has by another name or not at all stands with
the expression that computes the same there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....sql.functions.arrays import ARRAYS
from ....sql.functions.system import SYSTEM
from ..model import Query, QuerySuite, Size, TableSpec, named_queries
from .draws import decimals, generator, identifiers, joined, number_texts, phrase, pieces, record_batch, words

SEED: Final = 88
_DAY_MICROSECONDS: Final = 86_400_000_000
_FIRST_DAY: Final = 10_957
"""2000-01-01, in days since 1970."""

SAMPLES: Final = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("few", pa.int32(), nullable=False),
        pa.field("n", pa.int32(), nullable=False),
        pa.field("m", pa.int32(), nullable=False),
        pa.field("big", pa.int64(), nullable=False),
        pa.field("x", pa.float64(), nullable=False),
        pa.field("y", pa.float64(), nullable=False),
        pa.field("p", pa.float64(), nullable=False),
        pa.field("price", pa.decimal128(12, 2), nullable=False),
        pa.field("day", pa.date32(), nullable=False),
        pa.field("ts", pa.timestamp("us"), nullable=False),
        pa.field("until", pa.timestamp("us"), nullable=False),
        pa.field("flag", pa.bool_(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("word", pa.string(), nullable=False),
        pa.field("other", pa.string(), nullable=False),
        pa.field("mixed", pa.string(), nullable=False),
        pa.field("digits", pa.string(), nullable=False),
        pa.field("moment", pa.string(), nullable=False),
        pa.field("blanks", pa.string(), nullable=False),
        pa.field("maybe", pa.string()),
        pa.field("maybe_n", pa.int32()),
    ]
)
"""`name` has 10 to 40 characters, `word` and `other` 4 to 8; every third text of `mixed` is Cyrillic."""


def tables(size: Size, directory: Path) -> Sequence[TableSpec]:
    return [TableSpec("samples", SAMPLES, ("id",), lambda: _samples(size.rows))]


def _samples(rows: int) -> Iterator[pa.RecordBatch]:
    latin, cyrillic = words(5_000, SEED), words(5_000, SEED, cyrillic=True)
    for number, first, count in pieces(rows):
        rng = generator(SEED, number)
        ids = np.arange(first, first + count)
        days = _FIRST_DAY + rng.integers(0, 9_000, count)
        at = days * _DAY_MICROSECONDS + rng.integers(0, _DAY_MICROSECONDS, count)
        unique = number_texts(identifiers(ids, 1, 40))
        name = joined(phrase(identifiers(ids, 2), latin, 3), "-", unique)
        foreign = joined(phrase(identifiers(ids, 2), cyrillic, 4), " ", unique)
        word = latin.take(pa.array(rng.integers(0, len(latin), count)))
        second = latin.take(pa.array(rng.integers(0, len(latin), count)))
        missing = pa.array(rng.random(count) < 0.3)
        numbers = rng.integers(-1_000_000, 1_000_000, count)
        columns: dict[str, pa.Array | np.ndarray] = {
            "id": ids,
            "few": rng.integers(1, 13, count),
            "n": numbers,
            "m": rng.integers(1, 10_000, count),
            "big": identifiers(ids, 5, 62) - (1 << 61),
            "x": rng.normal(0, 1_000, count),
            "y": rng.lognormal(1, 1, count) + 1,
            "p": rng.random(count),
            "price": decimals(numbers * 7, 12, 2),
            "day": pa.array(days, pa.int32()).cast(pa.date32()),
            "ts": pa.array(at, pa.timestamp("us")),
            "until": pa.array(at + rng.integers(0, 900 * _DAY_MICROSECONDS, count), pa.timestamp("us")),
            "flag": rng.random(count) < 0.5,
            "name": name,
            "word": word,
            "other": second,
            "mixed": pc.if_else(pa.array(ids % 3 == 0), foreign, name),
            "digits": unique,
            "moment": pc.strftime(pa.array(at // 1_000_000, pa.timestamp("s")), "%Y-%m-%d %H:%M:%S"),
            "blanks": joined("  ", word, "   "),
            "maybe": pc.if_else(missing, None, name),
            "maybe_n": pc.if_else(missing, None, pa.array(numbers)),
        }
        yield record_batch(SAMPLES, columns)


def queries(size: Size) -> list[Query]:
    """A query over `samples` for each call."""
    text = (Path(__file__).parent / "texts" / "functions.sql").read_text(encoding="utf-8")
    return [
        Query(call.name, f"SELECT {call.text} FROM samples", f"SELECT {call.reference_text} FROM samples")
        for call in named_queries(text)
    ]


NO_PEER: Final = frozenset(
    ("sha224", "sha384", "sha512", "months_between", "justify_days", "justify_hours", "justify_interval", "hash_bucket")
).union(function.name for function in (*SYSTEM, *ARRAYS))
"""Functions without a counterpart in DuckDB, and those of the system catalogs: tables have no arrays."""

SUITE: Final = QuerySuite(
    "functions",
    "Scalar functions",
    "Every scalar function of the registry, casts, CASE and operators over one table of 22 columns, nearly all of "
    "whose texts, numbers and times are distinct; each call is a query that aggregates its results.",
    "rows",
    1_000_000,
    tables,
    queries,
)

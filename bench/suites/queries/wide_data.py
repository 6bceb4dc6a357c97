"""The tables of the suites `wide` and `cliff`: 50 columns of every type, and texts.

    wide     rows x 50      keys of 2 values to unique ones in each type, 20 metrics, columns with NULLs
    notes    rows x 5       one text of 20 to 200 characters per row, every third with Cyrillic, its author and its link
    labels   21 x 3         a dimension with texts

`CARDINALITIES` declares the distinct values of the columns to group by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..model import TableSpec
from .draws import (
    by_rank,
    decimals,
    generator,
    identifiers,
    joined,
    number_texts,
    phrase,
    pieces,
    record_batch,
    words,
    zipf,
)

SEED: Final = 50
_DAY_MICROSECONDS: Final = 86_400_000_000
_FIRST_DAY: Final = 18_262
"""2020-01-01, in days since 1970."""
METRICS: Final = 20
LABELS: Final = 21

CARDINALITIES: Final[dict[str, Callable[[int], int]]] = {
    "g2": lambda rows: 2,
    "g20": lambda rows: 20,
    "g1k": lambda rows: 1_000,
    "g100k": lambda rows: max(rows // 10, 10),
    "fz": lambda rows: 100,
    "d": lambda rows: 3_650,
    "s10": lambda rows: 10,
    "s1k": lambda rows: 1_000,
    "s20k": lambda rows: max(rows // 50, 10),
    "sutf": lambda rows: max(rows // 10, 10),
}

_TYPES: Final[dict[str, pa.DataType]] = {
    "g2": pa.int16(),
    "g20": pa.int16(),
    "g1k": pa.int32(),
    "g100k": pa.int32(),
    "i40": pa.int64(),
    "i62": pa.int64(),
    "i64": pa.int64(),
    "u": pa.int64(),
    "f": pa.float64(),
    "fz": pa.float64(),
    "r": pa.float32(),
    "d": pa.date32(),
    "ts": pa.timestamp("us"),
    "ts2": pa.timestamp("us"),
    "dec12": pa.decimal128(12, 2),
    "dec18": pa.decimal128(18, 4),
    "dec30": pa.decimal128(30, 6),
    "b": pa.bool_(),
    "s10": pa.string(),
    "s1k": pa.string(),
    "s20k": pa.string(),
    "suniq": pa.string(),
    "sutf": pa.string(),
    "sid": pa.string(),
    "label": pa.int32(),
}
_NULLABLE: Final[dict[str, pa.DataType]] = {
    "ni": pa.int32(),
    "nf": pa.float64(),
    "ns": pa.string(),
    "nd": pa.date32(),
}


def _wide_schema() -> pa.Schema:
    metrics = {f"m{n:02d}": pa.int32() if n <= METRICS // 2 else pa.float64() for n in range(1, METRICS + 1)}
    fields = [pa.field(name, type_, nullable=False) for name, type_ in ({"id": pa.int64()} | _TYPES | metrics).items()]
    return pa.schema([*fields, *(pa.field(name, type_) for name, type_ in _NULLABLE.items())])


WIDE: Final = _wide_schema()
NOTES: Final = pa.schema(
    [
        pa.field("note", pa.int64(), nullable=False),
        pa.field("author", pa.string()),
        pa.field("body", pa.string()),
        pa.field("tag", pa.string()),
        pa.field("link", pa.string()),
    ]
)
LABEL_SCHEMA: Final = pa.schema(
    [
        pa.field("label", pa.int32(), nullable=False),
        pa.field("title", pa.string()),
        pa.field("region", pa.string()),
    ]
)


def tables(rows: int) -> list[TableSpec]:
    """The three tables."""
    return [
        TableSpec("wide", WIDE, ("id",), lambda: _wide(rows)),
        TableSpec("notes", NOTES, ("note",), lambda: _notes(rows)),
        TableSpec("labels", LABEL_SCHEMA, ("label",), _labels),
    ]


def some_names(count: int, rows: int) -> pa.Array:
    """`count` of the texts of `s20k`, each other one of which is in the table."""
    return _named(np.arange(count) * max(2 * (rows // 50) // count, 1))


def _wide(rows: int) -> Iterator[pa.RecordBatch]:
    values = {name: number(rows) for name, number in CARDINALITIES.items()}
    for number, first, count in pieces(rows):
        rng = generator(SEED, number)
        ids = np.arange(first, first + count)
        columns: dict[str, pa.Array | np.ndarray] = {"id": ids}
        columns |= _numbers(rng, ids, rows, values)
        columns |= _times(rng, ids, rows)
        columns |= _texts(rng, ids, values)
        columns |= _with_nulls(rng, count)
        for n in range(1, METRICS + 1):
            whole = rng.integers(0, 10 ** (1 + n % 5), count)
            columns[f"m{n:02d}"] = whole if n <= METRICS // 2 else whole + rng.integers(0, 100, count) / 100
        yield record_batch(WIDE, columns)


def _numbers(
    rng: np.random.Generator, ids: np.ndarray, rows: int, values: dict[str, int]
) -> dict[str, pa.Array | np.ndarray]:
    count = len(ids)
    cents = rng.integers(0, 10_000_000, count)
    return {
        "g2": rng.integers(0, 2, count),
        "g20": zipf(rng, 20, count),
        "g1k": rng.integers(0, 1_000, count),
        "g100k": rng.integers(0, values["g100k"], count),
        "i40": identifiers(rng.integers(0, max(rows // 5, 10), count), 1, 40),
        "i62": identifiers(rng.integers(0, max(rows // 5, 10), count), 2, 62),
        "i64": (identifiers(rng.integers(0, max(rows // 5, 10), count), 3, 63) - (1 << 62)) * 2,
        "u": identifiers(ids, 4, 62),
        "f": rng.lognormal(3, 1, count),
        "fz": zipf(rng, 100, count) / 4,
        "r": rng.random(count).astype(np.float32),
        "dec12": decimals(cents, 12, 2),
        "dec18": decimals(cents * 10_000 + rng.integers(0, 10_000, count), 18, 4),
        "dec30": pc.multiply(decimals(cents, 12, 2), pa.scalar(10**12, pa.decimal128(14, 0))),
        "b": rng.random(count) < 0.3,
        "label": rng.integers(0, LABELS, count),
    }


def _times(rng: np.random.Generator, ids: np.ndarray, rows: int) -> dict[str, pa.Array | np.ndarray]:
    count = len(ids)
    days = _FIRST_DAY + rng.integers(0, 3_650, count)
    steady = _FIRST_DAY * _DAY_MICROSECONDS + ids * (365 * _DAY_MICROSECONDS // max(rows, 1))
    return {
        "d": pa.array(days, pa.int32()).cast(pa.date32()),
        "ts": pa.array(steady, pa.timestamp("us")),
        "ts2": pa.array(days * _DAY_MICROSECONDS + rng.integers(0, _DAY_MICROSECONDS, count), pa.timestamp("us")),
    }


@cache
def _vocabulary(cyrillic: bool = False) -> pa.Array:
    return words(5_000, SEED, cyrillic)


def _named(ranks: np.ndarray) -> pa.Array:
    return by_rank(ranks, lambda each: joined(phrase(each, _vocabulary(), 60, 2), "-", number_texts(each)))


def _texts(rng: np.random.Generator, ids: np.ndarray, values: dict[str, int]) -> dict[str, pa.Array | np.ndarray]:
    count = len(ids)
    unique = identifiers(ids, 5, 62)
    cyrillic = zipf(rng, values["sutf"], count, 0.5)
    return {
        "s10": _named(rng.integers(0, 10, count)),
        "s1k": _named(zipf(rng, 1_000, count)),
        "s20k": _named(rng.integers(0, values["s20k"], count)),
        "suniq": joined("item ", number_texts(unique)),
        "sutf": by_rank(cyrillic, lambda each: joined(phrase(each, _vocabulary(True), 61, 3), " ", number_texts(each))),
        "sid": joined(number_texts(identifiers(ids, 6, 60)), "-", number_texts(identifiers(ids, 7, 40))),
    }


def _with_nulls(rng: np.random.Generator, count: int) -> dict[str, pa.Array | np.ndarray]:
    days = pa.array(_FIRST_DAY + rng.integers(0, 365, count), pa.int32())
    return {
        "ni": _sometimes_null(rng, 0.1, pa.array(rng.integers(0, 10_000, count))),
        "nf": _sometimes_null(rng, 0.3, pa.array(rng.random(count) * 1_000)),
        "ns": _sometimes_null(rng, 0.5, _named(zipf(rng, 500, count))),
        "nd": _sometimes_null(rng, 0.05, days).cast(pa.date32()),
    }


def _sometimes_null(rng: np.random.Generator, share: float, values: pa.Array) -> pa.Array:
    return pc.if_else(pa.array(rng.random(len(values)) < share), None, values)


def _notes(rows: int) -> Iterator[pa.RecordBatch]:
    authors = max(rows // 20, 10)
    for number, first, count in pieces(rows):
        rng = generator(SEED + 1, number)
        ids = np.arange(first, first + count)
        latin, cyrillic = (phrase(ids, _vocabulary(kind), 70, 16) for kind in (False, True))
        body = joined(pc.if_else(pa.array(ids % 3 == 0), cyrillic, latin), ", #", number_texts(ids % 977))
        link = joined(
            "https://", _named(rng.integers(0, 2_000, count)), ".example/", number_texts(identifiers(ids, 71))
        )
        yield record_batch(
            NOTES,
            {
                "note": ids,
                "author": _named(zipf(rng, authors, count, 0.7)),
                "body": body,
                "tag": _sometimes_null(rng, 0.2, _named(zipf(rng, 300, count))),
                "link": link,
            },
        )


def _labels() -> Iterator[pa.RecordBatch]:
    numbers = np.arange(LABELS)
    regions = pa.array(["north", "south", "east", "west"]).take(pa.array(numbers % 4))
    yield record_batch(LABEL_SCHEMA, {"label": numbers, "title": _named(numbers), "region": regions})

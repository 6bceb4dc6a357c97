"""The h2o (db-benchmark) questions: ten of grouping, and joins of one large table with three smaller ones and itself.

    x          rows x 9     id1, id2: 100 texts; id3: rows / 100 texts; id4, id5, id6 the same as integers; v1 to v3
    small      rows / 10**6, medium rows / 10**3, big rows: tables to join with `x`, by integers and by texts

The tables and questions are those of the public benchmark, with K = 100 groups, no NULLs, unsorted. A table to join has
nine of ten of its keys in common with `x`. At fewer than 10 million rows `small` has ten rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..model import Query, QuerySuite, Size, TableSpec, queries_of
from .draws import generator, joined, number_texts, pieces, record_batch

SEED: Final = 108
_SALTS: Final = {"small": 1, "medium": 2, "big": 3}

X: Final = pa.schema(
    [
        pa.field("row", pa.int64(), nullable=False),
        *(pa.field(f"id{n}", pa.string(), nullable=False) for n in (1, 2, 3)),
        *(pa.field(f"id{n}", pa.int32(), nullable=False) for n in (4, 5, 6)),
        *(pa.field(f"j{n}", pa.int32(), nullable=False) for n in (1, 2, 3)),
        pa.field("v1", pa.int32(), nullable=False),
        pa.field("v2", pa.int32(), nullable=False),
        pa.field("v3", pa.float64(), nullable=False),
    ]
)


def groups(rows: int) -> int:
    """K, the distinct values of the small keys: 100, or 10 for trials with less than a million rows."""
    return 100 if rows >= 10**6 else 10


def cardinalities(rows: int) -> dict[str, int]:
    """Distinct values of the columns of `x`: K small ones, and rows / K large ones."""
    small, large = groups(rows), max(rows // groups(rows), 1)
    sizes = join_rows(rows)
    keys = {"j1": sizes["small"], "j2": sizes["medium"], "j3": sizes["big"]}
    return {"id1": small, "id2": small, "id3": large, "id4": small, "id5": small, "id6": large} | keys


def join_rows(rows: int) -> dict[str, int]:
    """The rows of the tables to join."""
    return {"small": max(rows // 10**6, 10), "medium": max(rows // 10**3, 10), "big": max(rows, 10)}


def tables(size: Size, directory: Path) -> Sequence[TableSpec]:
    return [
        TableSpec("x", X, ("row",), lambda: _x(size.rows)),
        *(
            TableSpec(name, _join_schema(name), (f"{name}_id",), partial(_join_table, name, rows))
            for name, rows in join_rows(size.rows).items()
        ),
    ]


def _x(rows: int) -> Iterator[pa.RecordBatch]:
    values = cardinalities(rows)
    for number, first, count in pieces(rows):
        rng = generator(SEED, number)
        columns: dict[str, pa.Array | np.ndarray] = {"row": np.arange(first, first + count)}
        for n in (1, 2, 3):
            columns[f"id{n}"] = _text_ids(rng.integers(1, values[f"id{n}"] + 1, count), 3 if n < 3 else 10)
            columns[f"id{n + 3}"] = rng.integers(1, values[f"id{n + 3}"] + 1, count)
            # One of ten keys has no partner: those of `_join_table` begin after a tenth of its rows.
            columns[f"j{n}"] = rng.integers(1, values[f"j{n}"] + 1, count)
        columns["v1"] = rng.integers(1, 6, count)
        columns["v2"] = rng.integers(1, 16, count)
        columns["v3"] = np.round(rng.random(count) * 100, 6)
        yield record_batch(X, columns)


def _text_ids(numbers: np.ndarray, width: int) -> pa.Array:
    """Texts such as id016, with `width` digits."""
    # The sum with a power of ten has all digits; its leading 1 is cut off.
    return joined("id", pc.utf8_slice_codeunits(number_texts(numbers + 10**width), 1))


def _join_schema(name: str) -> pa.Schema:
    return pa.schema(
        [
            pa.field(f"{name}_id", pa.int32(), nullable=False),
            pa.field(f"{name}_text", pa.string(), nullable=False),
            pa.field(f"{name}_group", pa.int32(), nullable=False),
            pa.field(f"{name}_v", pa.float64(), nullable=False),
        ]
    )


def _join_table(name: str, rows: int) -> Iterator[pa.RecordBatch]:
    """Keys from a tenth of `rows` on, in random order within a piece."""
    schema = _join_schema(name)
    for number, first, count in pieces(rows):
        rng = generator(SEED + _SALTS[name], number)
        keys = rng.permutation(np.arange(first, first + count)) + 1 + rows // 10
        columns: dict[str, pa.Array | np.ndarray] = {
            f"{name}_id": keys,
            f"{name}_text": joined(f"{name[0]}", number_texts(keys)),
            f"{name}_group": keys % 100,
            f"{name}_v": np.round(rng.random(count) * 100, 6),
        }
        yield record_batch(schema, columns)


def queries(size: Size) -> list[Query]:
    """Ten questions of grouping (G), and of joins (J)."""
    return queries_of("h2o.sql")


SUITE: Final = QuerySuite(
    "h2o",
    "h2o: grouping and joins",
    "The ten grouping questions of the public db-benchmark and its joins, also on texts, on a generated table with 100 "
    "groups of small keys and one group per 100 rows of large ones.",
    "rows",
    10_000_000,
    tables,
    queries,
)

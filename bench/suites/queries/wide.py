"""Wide rows, texts, windows, long lists, common table expressions, self joins; and `cliff`, key types by operations.

The queries of `wide` stand in `texts/wide.sql`. Those of `cliff` are every operation on every type of key: an engine
whose structure serves some types only shows it as a step between two rows of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow.compute as pc

from ..model import Query, QuerySuite, Size, TableSpec, queries_of
from . import wide_data

_LISTED: Final = 200

KEYS: Final = (
    "g1k",
    "i40",
    "i62",
    "i64",
    "f",
    "fz",
    "ts2",
    "dec12",
    "dec18",
    "dec30",
    "s1k",
    "s20k",
    "sutf",
    "suniq",
    "ns",
)
"""The columns of `cliff`: integers of 10 to 64 bits, doubles, times, decimals to 30 digits, texts, texts with NULLs."""

OPERATIONS: Final[dict[str, str]] = {
    "group": "SELECT {key}, count(*), sum(m01) FROM wide GROUP BY {key} ORDER BY 2 DESC, {key} LIMIT 10",
    "distinct": "SELECT count(DISTINCT {key}) FROM wide",
    "rows": "SELECT count(*) FROM (SELECT DISTINCT {key}, g2 FROM wide) AS pairs",
    "top": "SELECT {key}, id FROM wide ORDER BY {key} DESC, id LIMIT 10",
    "ends": "SELECT min({key}), max({key}) FROM wide",
    "ends_by_group": "SELECT g20, min({key}), max({key}) FROM wide GROUP BY g20",
    "window": (
        "SELECT count(*) FROM (SELECT row_number() OVER (PARTITION BY {key} ORDER BY id) AS place FROM wide) AS ranked "
        "WHERE place = 1"
    ),
    "join": (
        "SELECT count(*) FROM wide a JOIN (SELECT DISTINCT {key} FROM wide WHERE g20 = 9) AS b ON a.{key} = b.{key}"
    ),
    "semi": "SELECT count(*) FROM wide WHERE {key} IN (SELECT {key} FROM wide WHERE g20 = 9)",
}
"""The operations of `cliff`."""


def tables(size: Size, directory: Path) -> Sequence[TableSpec]:
    return wide_data.tables(size.rows)


def queries(size: Size) -> list[Query]:
    """The queries of `wide`, with their lists of values."""
    numbers = range(1, 20_000, 20)
    names = pc.unique(wide_data.some_names(_LISTED, size.rows)).to_pylist()
    return queries_of(
        "wide.sql",
        {
            "ids": ", ".join(map(str, numbers)),
            "names": ", ".join(f"'{name}'" for name in names),
            "rows": size.rows,
        },
    )


def cliff_queries(size: Size) -> list[Query]:
    """Each operation on each key."""
    return [Query(f"{operation}_{key}", text.format(key=key)) for operation, text in OPERATIONS.items() for key in KEYS]


WIDE: Final = QuerySuite(
    "wide",
    "Wide rows, texts and windows",
    "One table of 50 columns of every type and one of texts, a third of them Cyrillic: top-N, filters, lists of 1,000 "
    "values, many aggregates, windows, common table expressions, self joins, joins on texts, functions of texts and "
    "times.",
    "rows",
    1_000_000,
    tables,
    queries,
)
CLIFF: Final = QuerySuite(
    "cliff",
    "Types of keys by operations",
    f"{len(OPERATIONS)} operations (group, distinct, top-N, minimum and maximum, window, join, semi-join) on "
    f"{len(KEYS)} types of keys of the same table, from integers of 10 bits to decimals of 30 digits and unique texts.",
    "rows",
    1_000_000,
    tables,
    cliff_queries,
)

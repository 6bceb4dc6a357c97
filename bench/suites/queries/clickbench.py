"""ClickBench: 43 queries over one table of web analytics (`hits`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ..model import Query, QuerySuite, Size, TableSpec, queries_of
from . import hits

_REAL_ROWS: Final = 100_000_000
"""The rows of ClickBench's own data, to which the constants of its queries belong."""


def tables(size: Size, directory: Path) -> Sequence[TableSpec]:
    return [hits.table(size.rows)]


def queries(size: Size) -> list[Query]:
    """The 43 queries, with the group sizes and offsets reduced to the number of rows."""
    constants = {"groups": 100_000, "offset": 1_000, "far": 10_000, "near": 100}
    return queries_of("clickbench.sql", {name: size.rows * at // _REAL_ROWS for name, at in constants.items()})


SUITE: Final = QuerySuite(
    "clickbench",
    "ClickBench",
    "The 43 queries of ClickBench on a generated table of web analytics with 105 columns: skewed identifiers of 64 "
    "bits, URLs, titles and search phrases half in Cyrillic, most phrases empty. Group sizes and offsets are reduced "
    "to the number of rows.",
    "rows",
    2_000_000,
    tables,
    queries,
)

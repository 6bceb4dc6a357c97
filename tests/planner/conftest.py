"""The eight TPC-H tables with the statistics of scale factor 1, so that plans need no data."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from nyala.model.store import ColumnStatistics, TableStatistics
from nyala.model.types import DECIMAL, DataType, Kind
from nyala.planner.testing import FixedCatalog, make_table

HERE = Path(__file__).parent


def type_named(text: str) -> DataType:
    """Return the type of an SQL name."""
    match = re.fullmatch(r"DECIMAL\((\d+),\s*(\d+)\)", text)
    return DECIMAL(int(match[1]), int(match[2])) if match else DataType(Kind(text))


def tpch_catalog() -> FixedCatalog:
    """TPC-H at scale factor 1: no column is nullable."""
    tables, known = {}, {}
    for name, table in json.loads((HERE / "statistics_sf1.json").read_text()).items():
        columns = table["columns"]
        tables[name] = make_table(
            name, [(c, type_named(s["type"]), False) for c, s in columns.items()], table["key_columns"]
        )
        known[name] = TableStatistics(
            table["rows"],
            {c: ColumnStatistics(s["low"], s["high"], 0, float(s["distinct"])) for c, s in columns.items()},
        )
    return FixedCatalog(tables, known)


@pytest.fixture(scope="session")
def tpch() -> FixedCatalog:
    return tpch_catalog()

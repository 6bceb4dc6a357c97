"""The Star Schema Benchmark: 13 queries over one table of facts and four dimensions (O'Neil, O'Neil, Chen).

    lineorder   6,000,000 x SF    orders of one to seven lines
    customer    30,000 x SF       part   200,000 x (1 + log2 SF)
    supplier    2,000 x SF        dates  2,556 days of 1992 to 1998

The generator follows the specification's domains and cardinalities; `dates` is named `date` there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..model import Query, QuerySuite, Size, TableSpec, queries_of
from .draws import generator, identifiers, joined, number_texts, pieces, record_batch

SEED: Final = 1992
DAYS: Final = 2_556
FIRST_DAY: Final = date(1992, 1, 1)
NATIONS: Final[dict[str, tuple[str, ...]]] = {
    "AFRICA": ("ALGERIA", "ETHIOPIA", "KENYA", "MOROCCO", "MOZAMBIQUE"),
    "AMERICA": ("ARGENTINA", "BRAZIL", "CANADA", "PERU", "UNITED STATES"),
    "ASIA": ("CHINA", "INDIA", "INDONESIA", "JAPAN", "VIETNAM"),
    "EUROPE": ("FRANCE", "GERMANY", "ROMANIA", "RUSSIA", "UNITED KINGDOM"),
    "MIDDLE EAST": ("EGYPT", "IRAN", "IRAQ", "JORDAN", "SAUDI ARABIA"),
}
"""The 25 nations of the five regions; each has ten cities."""
_SEGMENTS: Final = ("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY")
_MODES: Final = ("AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK")
_PRIORITIES: Final = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECI", "5-LOW")
_COLOURS: Final = ("almond", "azure", "beige", "black", "blush", "coral", "cream", "forest", "green", "ivory", "khaki")
_MONTHS: Final = "January February March April May June July August September October November December"

_TEXT: Final = pa.string()
_INT: Final = pa.int32()


def _schema(**types: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, type_, nullable=False) for name, type_ in types.items()])


LINEORDER: Final = _schema(
    lo_orderkey=pa.int64(),
    lo_linenumber=_INT,
    lo_custkey=_INT,
    lo_partkey=_INT,
    lo_suppkey=_INT,
    lo_orderdate=_INT,
    lo_orderpriority=_TEXT,
    lo_shippriority=_INT,
    lo_quantity=_INT,
    lo_extendedprice=_INT,
    lo_discount=_INT,
    lo_revenue=_INT,
    lo_supplycost=_INT,
    lo_tax=_INT,
    lo_commitdate=_INT,
    lo_shipmode=_TEXT,
)
CUSTOMER: Final = _schema(
    c_custkey=_INT, c_name=_TEXT, c_city=_TEXT, c_nation=_TEXT, c_region=_TEXT, c_mktsegment=_TEXT
)
SUPPLIER: Final = _schema(s_suppkey=_INT, s_name=_TEXT, s_city=_TEXT, s_nation=_TEXT, s_region=_TEXT)
PART: Final = _schema(
    p_partkey=_INT, p_name=_TEXT, p_mfgr=_TEXT, p_category=_TEXT, p_brand1=_TEXT, p_color=_TEXT, p_size=_INT
)
DATES: Final = _schema(
    d_datekey=_INT,
    d_date=pa.date32(),
    d_dayofweek=_TEXT,
    d_month=_TEXT,
    d_year=_INT,
    d_yearmonthnum=_INT,
    d_yearmonth=_TEXT,
    d_daynuminyear=_INT,
    d_weeknuminyear=_INT,
)


def cardinalities(scale: float) -> dict[str, int]:
    """Rows of the dimensions, and orders; at least a few for scale factors below 0.01."""
    return {
        "orders": max(int(1_500_000 * scale), 100),
        "customer": max(int(30_000 * scale), 250),
        "supplier": max(int(2_000 * scale), 250),
        "part": max(int(200_000 * (1 + math.log2(scale) if scale > 1 else scale)), 1_000),
    }


def tables(size: Size, directory: Path) -> Sequence[TableSpec]:
    rows = cardinalities(size.scale)
    return [
        TableSpec("lineorder", LINEORDER, ("lo_orderkey", "lo_linenumber"), partial(_lineorder, rows)),
        TableSpec("customer", CUSTOMER, ("c_custkey",), partial(_people, "c", rows["customer"])),
        TableSpec("supplier", SUPPLIER, ("s_suppkey",), partial(_people, "s", rows["supplier"])),
        TableSpec("part", PART, ("p_partkey",), partial(_part, rows["part"])),
        TableSpec("dates", DATES, ("d_datekey",), _dates),
    ]


def _date_keys() -> np.ndarray:
    days = [FIRST_DAY + timedelta(days=number) for number in range(DAYS)]
    return np.array([day.year * 10_000 + day.month * 100 + day.day for day in days])


def _one_of(choices: Sequence[str], places: np.ndarray) -> pa.Array:
    return pa.array(choices).take(pa.array(places))


def _lineorder(rows: dict[str, int]) -> Iterator[pa.RecordBatch]:
    keys = _date_keys()
    for number, first, count in pieces(rows["orders"]):
        rng = generator(SEED, number)
        lines = rng.integers(1, 8, count)
        order = np.repeat(np.arange(count), lines)
        total = len(order)
        starts = np.cumsum(lines) - lines
        day = rng.integers(0, DAYS, count)
        quantity, discount = rng.integers(1, 51, total), rng.integers(0, 11, total)
        part = rng.integers(1, rows["part"] + 1, total)
        price = quantity * (90_000 + part % 20_000 + 100 * (part % 1_000)) // 100
        columns: dict[str, pa.Array | np.ndarray] = {
            "lo_orderkey": first + order + 1,
            "lo_linenumber": np.arange(total) - starts[order] + 1,
            "lo_custkey": rng.integers(1, rows["customer"] + 1, count)[order],
            "lo_partkey": part,
            "lo_suppkey": rng.integers(1, rows["supplier"] + 1, total),
            "lo_orderdate": keys[day][order],
            "lo_orderpriority": _one_of(_PRIORITIES, rng.integers(0, 5, count)[order]),
            "lo_shippriority": np.zeros(total, np.int32),
            "lo_quantity": quantity,
            "lo_extendedprice": price,
            "lo_discount": discount,
            "lo_revenue": price * (100 - discount) // 100,
            "lo_supplycost": 6 * price // (10 * quantity),
            "lo_tax": rng.integers(0, 9, total),
            "lo_commitdate": keys[np.minimum(day[order] + rng.integers(30, 91, total), DAYS - 1)],
            "lo_shipmode": _one_of(_MODES, rng.integers(0, 7, total)),
        }
        yield record_batch(LINEORDER, columns)


def _people(prefix: str, rows: int) -> Iterator[pa.RecordBatch]:
    """Customers or suppliers: a city of ten of each nation, named by nine letters of it and a digit."""
    schema = CUSTOMER if prefix == "c" else SUPPLIER
    numbers = np.arange(1, rows + 1)
    nations = [nation for group in NATIONS.values() for nation in group]
    regions = [region for region, group in NATIONS.items() for _ in group]
    # Each city has a customer and a supplier as soon as there are 250 of them.
    place = numbers * 7 % len(nations)
    padded = [f"{nation:<9.9}" for nation in nations]
    columns: dict[str, pa.Array | np.ndarray] = {
        schema.names[0]: numbers,
        f"{prefix}_name": joined("Customer#" if prefix == "c" else "Supplier#", number_texts(numbers + 10**9)),
        f"{prefix}_city": joined(_one_of(padded, place), number_texts(numbers // len(nations) % 10)),
        f"{prefix}_nation": _one_of(nations, place),
        f"{prefix}_region": _one_of(regions, place),
        "c_mktsegment": _one_of(_SEGMENTS, identifiers(numbers, 8) % 5),
    }
    yield record_batch(schema, columns)


def _part(rows: int) -> Iterator[pa.RecordBatch]:
    """Five manufacturers of five categories each, of 40 brands each."""
    numbers = np.arange(1, rows + 1)
    mixed = identifiers(numbers, 9)
    maker, category, brand = mixed % 5 + 1, mixed // 5 % 5 + 1, mixed // 25 % 40 + 1
    colours = _one_of(_COLOURS, mixed // 1_000 % len(_COLOURS))
    columns: dict[str, pa.Array | np.ndarray] = {
        "p_partkey": numbers,
        "p_name": joined(colours, " ", _one_of(_COLOURS, mixed // 20_000 % len(_COLOURS))),
        "p_mfgr": joined("MFGR#", number_texts(maker)),
        "p_category": joined("MFGR#", number_texts(maker * 10 + category)),
        "p_brand1": joined("MFGR#", number_texts(maker * 10 + category), number_texts(brand)),
        "p_color": colours,
        "p_size": mixed // 400_000 % 50 + 1,
    }
    yield record_batch(PART, columns)


def _dates() -> Iterator[pa.RecordBatch]:
    days = pa.array([FIRST_DAY + timedelta(days=number) for number in range(DAYS)], pa.date32())
    keys = _date_keys()
    months = _MONTHS.split()
    month = keys // 100 % 100 - 1
    day_of_year = pc.day_of_year(days).to_numpy()
    columns: dict[str, pa.Array | np.ndarray] = {
        "d_datekey": keys,
        "d_date": days,
        "d_dayofweek": pc.strftime(days, "%A"),
        "d_month": _one_of(months, month),
        "d_year": keys // 10_000,
        "d_yearmonthnum": keys // 100,
        "d_yearmonth": joined(_one_of([name[:3] for name in months], month), number_texts(keys // 10_000)),
        "d_daynuminyear": day_of_year,
        "d_weeknuminyear": (day_of_year - 1) // 7 + 1,
    }
    yield record_batch(DATES, columns)


def queries(size: Size) -> list[Query]:
    """The 13 queries in four flights."""
    return queries_of("ssb.sql")


SUITE: Final = QuerySuite(
    "ssb",
    "Star Schema Benchmark",
    "The 13 queries of the Star Schema Benchmark over generated facts and four dimensions.",
    "scale",
    1.0,
    tables,
    queries,
)

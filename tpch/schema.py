"""The eight tables of TPC-H in nyala's DDL, with the primary keys of the specification (revision 3, section 1.4).

`orders` and `lineitem` hash the order key into the same number of buckets, `partsupp` and `part` the part key. So each
pair is co-partitioned: an order and its items lie in tablets of the same number. `supplier` has few rows and few
buckets, `nation` and `region` one tablet.
"""

from __future__ import annotations

from typing import Final

from ..errors import InterfaceError, did_you_mean
from ..model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TableSpec:
    """One table: `rows` per scale factor 1 (`scales` False: at any scale factor), columns in specification order."""

    name: str
    rows: int
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    hash_column: str | None = None
    max_buckets: int = 1024
    scales: bool = True

    def create_table(self, buckets: int) -> str:
        """The CREATE TABLE statement with at most `buckets` hash buckets; one bucket means no hashing at all."""
        lines = [f"  {name} {type_} NOT NULL" for name, type_ in self.columns]
        lines.append(f"  PRIMARY KEY ({', '.join(self.key)})")
        statement = f"CREATE TABLE {self.name} (\n" + ",\n".join(lines) + ")"
        wanted = min(buckets, self.max_buckets)
        if self.hash_column is not None and wanted > 1:
            statement += f"\nDISTRIBUTE BY HASH ({self.hash_column}) INTO {wanted} BUCKETS"
        return statement

    def expected_rows(self, scale_factor: float) -> int | None:
        """The number of rows of the generator; None for lineitem, whose number it draws at random."""
        if self.name == "lineitem":
            return None
        return round(self.rows * scale_factor) if self.scales else self.rows


def _columns(text: str) -> tuple[tuple[str, str], ...]:
    pairs = (line.split(maxsplit=1) for line in text.strip().splitlines())
    return tuple((name, type_) for name, type_ in pairs)


REGION: Final = TableSpec(
    "region",
    5,
    _columns("""
        r_regionkey BIGINT
        r_name CHAR(25)
        r_comment VARCHAR(152)
    """),
    ("r_regionkey",),
    scales=False,
)
NATION: Final = TableSpec(
    "nation",
    25,
    _columns("""
        n_nationkey BIGINT
        n_name CHAR(25)
        n_regionkey BIGINT
        n_comment VARCHAR(152)
    """),
    ("n_nationkey",),
    scales=False,
)
SUPPLIER: Final = TableSpec(
    "supplier",
    10_000,
    _columns("""
        s_suppkey BIGINT
        s_name CHAR(25)
        s_address VARCHAR(40)
        s_nationkey BIGINT
        s_phone CHAR(15)
        s_acctbal DECIMAL(15,2)
        s_comment VARCHAR(101)
    """),
    ("s_suppkey",),
    "s_suppkey",
    max_buckets=2,
)
CUSTOMER: Final = TableSpec(
    "customer",
    150_000,
    _columns("""
        c_custkey BIGINT
        c_name VARCHAR(25)
        c_address VARCHAR(40)
        c_nationkey BIGINT
        c_phone CHAR(15)
        c_acctbal DECIMAL(15,2)
        c_mktsegment CHAR(10)
        c_comment VARCHAR(117)
    """),
    ("c_custkey",),
    "c_custkey",
)
PART: Final = TableSpec(
    "part",
    200_000,
    _columns("""
        p_partkey BIGINT
        p_name VARCHAR(55)
        p_mfgr CHAR(25)
        p_brand CHAR(10)
        p_type VARCHAR(25)
        p_size INT
        p_container CHAR(10)
        p_retailprice DECIMAL(15,2)
        p_comment VARCHAR(23)
    """),
    ("p_partkey",),
    "p_partkey",
)
PARTSUPP: Final = TableSpec(
    "partsupp",
    800_000,
    _columns("""
        ps_partkey BIGINT
        ps_suppkey BIGINT
        ps_availqty INT
        ps_supplycost DECIMAL(15,2)
        ps_comment VARCHAR(199)
    """),
    ("ps_partkey", "ps_suppkey"),
    "ps_partkey",
)
ORDERS: Final = TableSpec(
    "orders",
    1_500_000,
    _columns("""
        o_orderkey BIGINT
        o_custkey BIGINT
        o_orderstatus CHAR(1)
        o_totalprice DECIMAL(15,2)
        o_orderdate DATE
        o_orderpriority CHAR(15)
        o_clerk CHAR(15)
        o_shippriority INT
        o_comment VARCHAR(79)
    """),
    ("o_orderkey",),
    "o_orderkey",
)
# The line number, fourth in the specification, moves to second place: key columns come first.
LINEITEM: Final = TableSpec(
    "lineitem",
    6_001_215,
    _columns("""
        l_orderkey BIGINT
        l_linenumber INT
        l_partkey BIGINT
        l_suppkey BIGINT
        l_quantity DECIMAL(15,2)
        l_extendedprice DECIMAL(15,2)
        l_discount DECIMAL(15,2)
        l_tax DECIMAL(15,2)
        l_returnflag CHAR(1)
        l_linestatus CHAR(1)
        l_shipdate DATE
        l_commitdate DATE
        l_receiptdate DATE
        l_shipinstruct CHAR(25)
        l_shipmode CHAR(10)
        l_comment VARCHAR(44)
    """),
    ("l_orderkey", "l_linenumber"),
    "l_orderkey",
)

TABLES: Final = (REGION, NATION, SUPPLIER, CUSTOMER, PART, PARTSUPP, ORDERS, LINEITEM)
"""Ordered so that referenced tables come first; the large ones last."""


def table(name: str) -> TableSpec:
    """One table's specification by name."""
    for spec in TABLES:
        if spec.name == name.lower():
            return spec
    hint = did_you_mean(name, [spec.name for spec in TABLES], "TPC-H has")
    raise InterfaceError(f"TPC-H has no table {name}{hint}")

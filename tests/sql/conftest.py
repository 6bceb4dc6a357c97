"""Fixtures of the SQL tests: a catalog of a few tables, made by nyala's own DDL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest
from bound_text import describe
from nyala.errors import UnknownTable, did_you_mean
from nyala.model.clock import make_timestamp
from nyala.model.namespaces import DEFAULT_NAMESPACE, Namespace
from nyala.model.schema import Table, View, assign_column_ids
from nyala.model.store import Timestamp
from nyala.sql import bind, bound, parse

TABLES = """
create table nation (n_nationkey int primary key, n_name string not null, n_regionkey int not null, n_comment string);
create table customer (
    c_custkey bigint primary key, c_name varchar(25) not null, c_address string not null, c_nationkey int not null,
    c_phone char(15) not null, c_acctbal decimal(15,2) not null, c_mktsegment string not null, c_comment string not null
) distribute by hash (c_custkey) into 4 buckets;
create table orders (
    o_orderkey bigint primary key, o_custkey bigint not null, o_orderstatus string not null,
    o_totalprice decimal(15,2) not null, o_orderdate date not null, o_orderpriority string not null,
    o_clerk string not null, o_shippriority int not null, o_comment string not null
) distribute by hash (o_orderkey) into 4 buckets;
create table lineitem (
    l_orderkey bigint, l_linenumber int, l_partkey bigint not null, l_suppkey bigint not null,
    l_quantity decimal(15,2) not null, l_extendedprice decimal(15,2) not null, l_discount decimal(15,2) not null,
    l_tax decimal(15,2) not null, l_returnflag string not null, l_linestatus string not null,
    l_shipdate date not null, l_commitdate date not null, l_receiptdate date not null, l_shipinstruct string not null,
    l_shipmode string not null, l_comment string not null, primary key (l_orderkey, l_linenumber)
) distribute by hash (l_orderkey) into 4 buckets;
create table part (
    p_partkey bigint primary key, p_name string not null, p_mfgr string not null, p_brand string not null,
    p_type string not null, p_size int not null, p_container string not null, p_retailprice decimal(15,2) not null,
    p_comment string not null);
create table supplier (
    s_suppkey bigint primary key, s_name string not null, s_address string not null, s_nationkey int not null,
    s_phone string not null, s_acctbal decimal(15,2) not null, s_comment string not null);
create table partsupp (
    ps_partkey bigint, ps_suppkey bigint, ps_availqty int not null, ps_supplycost decimal(15,2) not null,
    ps_comment string not null, primary key (ps_partkey, ps_suppkey));
create table region (r_regionkey int primary key, r_name string not null, r_comment string);
create table kinds (
    k bigint primary key, b boolean, t tinyint, s smallint, i int default 7, n bigint, f float, d double,
    m decimal(9,2), w decimal(38,10), day date default date '2020-02-29', at timestamp, name string, code varchar(3),
    raw binary);
create table sites (
    country string, city string, visits bigint immutable, area int encoding rle block_size 4096 default 3,
    non unique primary key (country, city)
) distribute by hash (city) into 2 buckets, range (country) (partition values < 'b', partition value = 'fr');
create table "Odd" ("Key" int primary key, "select" string);
"""

VIEWS = {
    view.name: view
    for view in (
        View("rich", "SELECT c_custkey, c_name FROM customer WHERE c_acctbal > 9000", ("key", "name")),
        View("richest", "SELECT max(name) AS name FROM rich", ("name",)),
        View("broken", "SELECT nothing FROM nation", ("nothing",)),
    )
}
"""Views whose names collide with no table."""
NOW = make_timestamp(1_767_225_600_000_000, 7)


@dataclass(repr=False)
class Tables:
    """A catalog over a fixed set of tables, at a fixed time: 2026-01-01 00:00:00."""

    known: dict[str, Table]

    def table(self, name: str) -> Table:
        if name not in self.known:
            raise UnknownTable(f"table {name} does not exist{did_you_mean(name, self.known, 'there are')}")
        return self.known[name]

    def tables(self) -> Sequence[Table]:
        return [self.known[name] for name in sorted(self.known)]

    def views(self) -> Sequence[View]:
        return [VIEWS[name] for name in sorted(VIEWS)]

    def view(self, name: str) -> View | None:
        return VIEWS.get(name)

    def namespaces(self) -> Sequence[Namespace]:
        return [Namespace(DEFAULT_NAMESPACE)]

    def now(self) -> Timestamp:
        return NOW


def make_catalog() -> Tables:
    catalog = Tables({})
    for parsed in parse(TABLES):
        statement = bind(parsed, catalog)
        assert isinstance(statement, bound.CreateTable)
        definition = statement.definition
        columns = assign_column_ids(definition.schema.columns)
        table = Table(
            definition.name, definition.name, replace(definition.schema, columns=columns), definition.partitions
        )
        catalog.known[definition.name] = replace(table, next_column_id=len(columns))
    return catalog


@pytest.fixture(scope="session")
def catalog() -> Tables:
    return make_catalog()


@pytest.fixture(scope="session")
def explain_binding(catalog: Tables) -> Callable[[str], str]:
    """Parses and binds all statements of a text and describes them."""
    return lambda text: "\n".join(describe(bind(parsed, catalog)) for parsed in parse(text))

"""Statistics and descriptions, merged from many tablets."""

from __future__ import annotations

import pyarrow as pa
import pytest
from cluster_support_client import once
from hypothesis import given
from hypothesis import strategies as st
from nyala import errors
from nyala.cluster.client.catalog import statistics_cache as facts
from nyala.cluster.client.catalog.statistics import merged_statistics
from nyala.cluster.wire.messages import methods
from nyala.model.partitions.partition import Partitioner
from nyala.model.schema import ColumnSchema, HashRule, PartitionSchema, Schema, Table, TableDefinition
from nyala.model.store import ColumnStatistics, Op, TableStatistics, WriteBatch
from nyala.model.types import DOUBLE, INT, STRING

SCHEMA = Schema((ColumnSchema("k", INT, False), ColumnSchema("v", STRING), ColumnSchema("d", DOUBLE)), 1)
PARTITIONS = PartitionSchema((HashRule(("k",), 4),))
TABLE = Table("t1", "t", SCHEMA, PARTITIONS)


@pytest.fixture
def table(client):
    return client.create_table(TableDefinition("t", SCHEMA, PARTITIONS))


def rows(keys) -> WriteBatch:
    keys = list(keys)
    data = {"k": pa.array(keys, pa.int32()), "v": [f"v{k % 7}" if k % 5 else None for k in keys]}
    return WriteBatch(pa.record_batch({**data, "d": [float(k) for k in keys]}), Op.UPSERT)


# ---- merging ---------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 30), st.one_of(st.none(), st.integers(0, 5)))), min_size=2, max_size=5)
)
def test_merged_statistics_bound_the_truth(tablets):
    parts = []
    for part in tablets:
        values = [v for _, v in part if v is not None]
        column = ColumnStatistics(
            min(values, default=None), max(values, default=None), len(part) - len(values), float(len(set(values)))
        )
        parts.append(TableStatistics(len(part), {"v": column}))
    whole = merged_statistics(TABLE, parts)
    present = [v for part in tablets for _, v in part if v is not None]
    found = whole.columns["v"]
    assert whole.row_count == sum(map(len, tablets))
    assert (found.low, found.high) == (min(present, default=None), max(present, default=None))
    assert found.null_count == whole.row_count - len(present)
    counts = [part.columns["v"].distinct_count for part in parts]
    assert found.distinct_count is not None
    assert max(counts) - 1e-6 <= found.distinct_count <= max(sum(counts), 0) + 1e-6


@pytest.mark.parametrize(
    ("rows", "distinct", "together"),
    [(1000, 10.0, 10.0), (1000, 1000.0, 4000.0), (1000, 800.0, 1817.0), (0, 0.0, 0.0)],
)
def test_distinct_values_of_samples(rows, distinct, together):
    part = TableStatistics(rows, {"v": ColumnStatistics("a", "z", 0, distinct)})
    assert merged_statistics(TABLE, [part] * 4).columns["v"].distinct_count == pytest.approx(together, abs=1.0)


def test_distinct_values_add_up_where_tablets_have_none_in_common():
    part = TableStatistics(1000, {"k": ColumnStatistics(0, 9, 0, 10.0)})
    assert merged_statistics(TABLE, [part] * 4).columns["k"].distinct_count == 40, "the table is divided by it"
    apart = [TableStatistics(1000, {"v": ColumnStatistics(f"{n}a", f"{n}z", 0, 10.0)}) for n in range(4)]
    assert merged_statistics(TABLE, apart).columns["v"].distinct_count == 40, "intervals do not meet"
    unknown = TableStatistics(1000, {"v": ColumnStatistics("0a", "0z", 0, None)})
    assert merged_statistics(TABLE, [*apart, unknown]).columns["v"].distinct_count is None


# ---- calls -----------------------------------------------------------------------------------------------------------


def test_statistics_are_the_whole_tables(client, table, cluster):
    client.write(table, rows(range(100)))
    whole, model = client.statistics(table), cluster.database.statistics(table)
    assert whole.row_count == 100
    assert whole.columns["k"] == model.columns["k"]
    assert whole.columns["v"].null_count == model.columns["v"].null_count == 20
    assert whole.columns["v"].distinct_count == pytest.approx(7, abs=0.5)


def test_small_tables_are_counted_after_each_write_and_large_ones_are_not(client, table, cluster, monkeypatch):
    client.write(table, rows(range(50)))
    for key in range(50, 55):
        client.write_row(table, Op.INSERT, {"k": key})
        assert client.statistics(table).row_count == key + 1
    monkeypatch.setattr(facts, "SMALL_ROWS", 10)
    monkeypatch.setattr(facts, "WRITTEN_SECONDS", 60)
    client.write_row(table, Op.INSERT, {"k": 55})
    assert client.statistics(table).row_count == 55, "a row more or less"
    client.write(table, rows(range(100)))
    assert client.statistics(table).row_count == 100, "many"


def test_what_is_known_is_used_for_a_while(client, table, cluster, monkeypatch):
    client.write(table, rows(range(50)))
    client.statistics(table)
    cluster.log.clear()
    for _ in range(5):
        client.statistics(table)
    assert not cluster.requests(methods.DescribeTablets)
    monkeypatch.setattr(facts, "KEPT_SECONDS", 0.0)
    client.statistics(table)
    asked = [tablet for _, request in cluster.requests(methods.DescribeTablets) for tablet in request.tablet_ids]
    assert sorted(asked) == sorted(client._catalog.known(table).tablet_ids), "each once, at its leader"


def test_tablets_that_do_not_answer_are_left_out(client, table, cluster, monkeypatch):
    monkeypatch.setattr(facts, "PATIENCE_SECONDS", 0.2)
    client.write(table, rows(range(50)))
    cluster.faults.append(once(methods.DescribeTablets, errors.ServerOverloaded("later"), times=1 << 30))
    assert client.statistics(table).row_count == 0
    cluster.faults.clear()
    monkeypatch.setattr(facts, "KEPT_SECONDS", 0.0)
    assert client.statistics(table).row_count == 50


def test_tablets_are_described(client, table, cluster):
    client.write(table, rows(range(50)))
    described = client.describe_tablets(table)
    labels = [partition.describe() for partition in Partitioner(SCHEMA, PARTITIONS).partitions]
    assert [tablet.partition for tablet in described] == labels
    assert sum(tablet.rows for tablet in described) == 50
    for tablet in described:
        roles = {replica.host: replica.role for replica in tablet.replicas}
        assert roles.pop(cluster.leader(tablet.id)) == "LEADER"
        assert set(roles.values()) == {"FOLLOWER"} and len(roles) == 2
    assert client.tablet_count(table) == 4


def test_work_is_done_at_all_replicas_and_the_leaders_numbers_add_up(client, table, cluster):
    client.write(table, rows(range(50)))
    calls = []
    result = client.analyze_table(table, lambda: calls.append(1))
    assert (result.rows, result.rows_flushed) == (50, 50) and calls
    assert len(cluster.requests(methods.WorkOnTablet)) == 4 * 3
    assert client.compact_table(table).rowsets_after == 4
    storage = client.table_storage(table)
    assert (storage.tablets, storage.rowsets) == (4, 4)
    assert storage.columns["k"].bytes > 0 and storage.columns["k"].width == 4
    (first, *_) = client.describe_tablets(table)
    samples = client.key_samples(table, first.id)
    assert samples == sorted(samples) and samples
    with pytest.raises(errors.TabletGone):
        client.key_samples(table, "t000001-p9999")


def test_work_is_given_up_where_the_check_raises(client, table, cluster):
    def check() -> None:
        raise errors.Cancelled("the statement was cancelled")

    with pytest.raises(errors.Cancelled):
        client.compact_table(table, check)

"""The streaming source: each change once, whatever is written between batches and wherever a query is stopped."""

from __future__ import annotations

import datetime
import decimal
import itertools
import pickle
import random

import nyala
import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nyala.errors import HistoryGone, InterfaceError, StaleScanToken, UnknownTable
from nyala.spark.source import changes, partitions, scanning, schemas
from nyala.spark.source.options import Use, parse
from nyala.spark.source.scanning import read
from nyala.spark.source.stream_reader import StreamReader
from nyala.testing import MiniCluster

TABLES = (f"t{number}" for number in itertools.count())
OPS = st.lists(
    st.tuples(st.sampled_from(["upsert", "delete_ignore", "update_ignore"]), st.integers(0, 8), st.integers(0, 3)),
    max_size=12,
)


@pytest.fixture(scope="module")
def cluster():
    with MiniCluster(tservers=1) as made:
        yield made


@pytest.fixture(scope="module")
def connection(cluster):
    with nyala.connect(cluster.url) as made:
        yield made


def _table(connection):
    name = next(TABLES)
    connection.execute(f"CREATE TABLE {name} (k INT PRIMARY KEY, v INT) DISTRIBUTE BY HASH (k) INTO 3 BUCKETS")
    return connection.table(name)


def _write(handle, operations):
    for op, k, v in operations:
        getattr(handle, op)({"k": k} if op == "delete_ignore" else {"k": k, "v": v})


def _rows(handle):
    return {row["k"]: row["v"] for row in handle.scan().to_arrow().to_pylist()}


def _applied(state, rows):
    """The rows that a state comes to by changes, each of which must fit what is there."""
    for row in sorted(rows, key=lambda row: row["_changed_at"]):
        if row["_change"] == "delete":
            assert state.pop(row["k"]) == row["v"]
        else:
            assert (row["k"] in state) == (row["_change"] == "update")
            state[row["k"]] = row["v"]
    return state


class Query:
    """Runs a source as Spark does, without Spark: offsets, partitions, tasks in separate processes."""

    def __init__(self, url, table, start, **options):
        self._options = {"url": url, "dbtable": table, "startingTimestamp": start, **options}
        self._schema = schemas.schema(self._options)
        self.reader = self._made()
        self.offset = self.reader.initialOffset()

    def _made(self):
        return StreamReader(self._options, self._schema)

    def batch(self):
        assert self.reader.initialOffset() == self.reader.initialOffset()
        end = self.reader.latestOffset(self.offset, self.reader.getDefaultReadLimit())
        rows = self.read(self.offset, end)
        self.offset = end
        return rows

    def read(self, start, end):
        parts = pickle.loads(pickle.dumps(list(self.reader.partitions(start, end))))
        return [row for part in parts for batch in self._made().read(part) for row in batch.to_pylist()]


@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(OPS, st.lists(OPS, min_size=1, max_size=4), st.sampled_from(["earliest", "latest", "0"]))
def test_each_change_comes_once_and_in_order(cluster, connection, before, rounds, start):
    handle = _table(connection)
    _write(handle, before)
    query = Query(cluster.url, handle.name, start)
    since = {"0": 0, "latest": connection.store.now()}.get(start)
    state = _rows(handle) if start == "latest" else {}
    seen = []
    for operations in rounds:
        rows = query.batch()
        state = _applied(state, rows)
        assert state == _rows(handle)
        if since is None:  # the first batch are the rows at its end; from there on it is the history
            since = query.offset["ts"]
            assert {row["_changed_at"] for row in rows} <= {since}
        else:
            seen += rows
        _write(handle, operations)
    last = query.offset
    seen += query.batch()
    assert _applied(state, query.read(last, query.offset)) == _rows(handle)  # a batch that is repeated is the same
    assert query.batch() == []
    idle = query.offset
    assert query.batch() == [] and query.offset == idle  # while nothing happens there are no batches
    told = [(row["k"], row["_changed_at"], row["_change"]) for row in seen]
    history = handle.changes(since, columns=["k"]).to_arrow().to_pylist()
    assert sorted(told) == sorted((row["k"], row["_changed_at"], row["_change"]) for row in history)


def test_columns_and_conditions_narrow_a_stream(cluster, connection):
    handle = _table(connection)
    handle.insert([(1, 1), (2, 2), (3, 3)])
    query = Query(cluster.url, handle.name, "earliest", columns="v", where="k + 0 > 1 AND v < 100")
    assert sorted((row["v"], row["_change"]) for row in query.batch()) == [(2, "insert"), (3, "insert")]
    handle.upsert([(1, 10), (2, 20), (3, 300)])
    (row,) = query.batch()
    assert list(row) == ["v", "_change", "_changed_at"]
    assert (row["v"], row["_change"]) == (20, "update")


def test_a_query_that_was_stopped_goes_on_where_it_was(spark, cluster, connection, tmp_path):
    """Runs that end by themselves, and one that fails in the middle of its batch, over one checkpoint."""
    handle = _table(connection)
    rng = random.Random(4)
    batches = {}

    def run(fails=False):
        def keep(frame, number):
            batches[number] = [row.asDict() for row in frame.collect()]
            if fails:
                raise ValueError("on purpose")

        stream = spark.readStream.format("nyala").option("startingTimestamp", "earliest")
        rows = stream.options(url=cluster.url, dbtable=handle.name).load()
        query = rows.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path))
        query.trigger(availableNow=True).start().awaitTermination()

    def write():
        ops = ("upsert", "delete_ignore", "update_ignore")
        _write(handle, [(rng.choice(ops), rng.randrange(20), rng.randrange(3)) for _ in range(30)])

    write()
    run()
    write()
    with pytest.raises(Exception, match="on purpose"):
        run(fails=True)
    failed = batches[1]
    write()
    run()  # the batch that failed, once more, and what was written since
    assert batches[1] == failed
    run()
    seen = [row for number in sorted(batches) for row in batches[number]]
    assert sorted(batches) == [0, 1, 2]
    assert _applied({}, seen) == _rows(handle)
    # The first batch are the rows at its end as inserts; from there on it is the history.
    (first,) = {row["_changed_at"] for row in batches[0]}
    assert len(seen) - len(batches[0]) == handle.changes(first).to_arrow().num_rows


@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(OPS, OPS, st.integers(1, 5), st.sampled_from(["earliest", "0"]))
def test_batches_with_a_limit_have_the_same_changes(cluster, connection, before, after, most, start):
    """Batches are limited to `most` rows, split between rows or writes; so is the initial snapshot."""
    handle = _table(connection)
    _write(handle, before)
    there = len(_rows(handle))
    query = Query(cluster.url, handle.name, start, maxRowsPerTrigger=str(most))
    state, first = {}, []
    while start == "earliest" and query.offset["ts"] == -1:
        started = query.offset
        rows = query.batch()
        assert len(rows) <= most and query.read(started, query.offset) == rows
        first.append(len(rows))
        state = _applied(state, rows)
        if query.offset["ts"] == -1:  # concurrent writes are reported after the snapshot
            _write(handle, after[:3])
            after = after[3:]
    assert sum(first) == (there if start == "earliest" else 0) and len(first) <= there // most + 1
    _write(handle, after)
    while rows := query.batch():
        assert len(rows) <= most
        state = _applied(state, rows)
    assert state == _rows(handle)


def test_a_write_is_never_divided_and_keys_of_all_types_make_pages(cluster, connection):
    name = next(TABLES)
    connection.execute(
        f"CREATE TABLE {name} (s STRING, d DATE, t TIMESTAMP, n DECIMAL(9,2), b BINARY, v INT, "
        "PRIMARY KEY (s, d, t, n, b)) DISTRIBUTE BY HASH (s, d) INTO 2 BUCKETS"
    )
    handle = connection.table(name)
    day, noon = datetime.date(2020, 1, 2), datetime.datetime(2020, 1, 2, 12, 0, 0, 5)
    rows = [("it's", day, noon, decimal.Decimal(n) / 4, b"\0'" * (n % 3), n) for n in range(9)]
    handle.insert(rows)
    query = Query(cluster.url, name, "earliest", maxOffsetsPerTrigger="2", where="v < 8")
    sizes = []
    while query.offset["ts"] == -1:
        sizes.append(len(query.batch()))
    assert sizes == [2, 2, 2, 2]
    handle.upsert([(*row[:-1], 0) for row in rows[:5]])
    assert len(query.batch()) == 5 and query.batch() == []


def test_zero_is_what_the_store_remembers(cluster, connection, monkeypatch):
    """If history was removed, 0 starts after it; any other removed time is an error."""
    handle = _table(connection)
    handle.insert([(1, 1)])
    forgotten = connection.store.now()
    handle.insert([(2, 2)])
    real = scanning.has_rows

    def remembering(connection, part):
        if part.spec.changes.since < forgotten:
            raise HistoryGone("its history is kept only since noon")
        return real(connection, part)

    monkeypatch.setattr(scanning, "has_rows", remembering)
    query = Query(cluster.url, handle.name, "0")
    assert query.offset == {"ts": forgotten}
    assert [row["k"] for row in query.batch()] == [2]
    with pytest.raises(HistoryGone):
        Query(cluster.url, handle.name, str(forgotten - 1)).batch()


def test_a_stream_from_now_on_begins_once(spark, cluster, connection, tmp_path):
    """Real Spark requests the first offset several times; limits, names and restarts are Spark's own."""
    handle = _table(connection)
    handle.insert([(k, k) for k in range(6)])
    seen = []

    def run(folder, start, **options):
        batches = []
        stream = spark.readStream.format("nyala").options(url=cluster.url, dbtable=handle.name, **options)
        rows = stream.option("startingTimestamp", start).load()
        query = rows.writeStream.foreachBatch(lambda frame, _: batches.append(frame.select("k").collect()))
        query = query.queryName(folder).option("checkpointLocation", str(tmp_path / folder))
        query.trigger(availableNow=True).start().awaitTermination()
        seen[:] = [[row.k for row in batch] for batch in batches]

    run("latest", "latest")
    assert not any(seen)  # a batch without rows fixes the offset in the checkpoint
    handle.insert([(10, 1)])
    run("latest", "latest")
    assert seen == [[10]]
    run("paged", "earliest", maxRowsPerTrigger="3")
    assert list(map(sorted, seen)) == [[0, 1, 2], [3, 4, 5], [10]]
    handle.insert((11, 1))
    handle.insert((12, 1))
    run("paged", "earliest", maxRowsPerTrigger="1")
    assert seen == [[11], [12]]


def test_a_stream_must_say_where_it_begins(cluster, connection):
    handle = _table(connection)
    options = {"url": cluster.url, "dbtable": handle.name}
    with pytest.raises(InterfaceError, match="option startingTimestamp is missing"):
        StreamReader(options, schemas.schema(options))
    connection.execute(f"CREATE OR REPLACE VIEW seen AS SELECT * FROM {handle.name}")
    with pytest.raises(InterfaceError, match="seen is a view; changes are read of tables"):
        schemas.schema({**options, "dbtable": "seen", "startingTimestamp": "0"})


def _part_of_changes(connection, handle, since, now):
    parsed = parse({"url": "nyala://a", "dbtable": handle.name, "startingTimestamp": "0"}, Use.READ)
    return partitions.make_parts(connection, changes.plan_changes(connection, parsed, since, now), now)[0]


def test_what_the_store_has_forgotten_is_an_error(connection, monkeypatch):
    handle = _table(connection)
    handle.insert((1, 1))
    now = connection.store.now()
    part = _part_of_changes(connection, handle, since=now, now=now)

    def forgotten(*_):
        raise HistoryGone("its history is kept only since noon")
        yield

    monkeypatch.setattr(connection.store, "scan", forgotten)
    with pytest.raises(HistoryGone, match=r"since noon; earlier changes .* startingTimestamp=earliest"):
        list(read(connection, part, None, 100))


def test_a_table_that_is_dropped_while_it_is_read_is_named(connection, monkeypatch):
    handle = _table(connection)
    part = _part_of_changes(connection, handle, since=0, now=connection.store.now())

    def dropped(*_):
        raise UnknownTable("there is no table of that name any more")
        yield

    monkeypatch.setattr(connection.store, "scan", dropped)
    with pytest.raises(StaleScanToken, match=rf"table {handle.name} \(.*\) has been dropped; load"):
        list(read(connection, part, None, 100))

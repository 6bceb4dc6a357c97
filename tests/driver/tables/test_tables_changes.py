"""The change history without SQL: replayed, it is the table."""

from __future__ import annotations

import nyala
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.driver.tables.conditions import col

STEPS = st.lists(
    st.tuples(st.sampled_from(["upsert", "update_ignore", "delete_ignore", "flush", "look"]), st.integers(0, 6)),
    max_size=30,
)


def replay(state, rows):
    for row in rows:
        change, _ = row.pop("_change"), row.pop("_changed_at")
        assert (row["k"] in state) == (change != "insert")
        if change == "delete":
            assert state.pop(row["k"]) == row["v"]
        else:
            state[row["k"]] = row["v"]


@settings(max_examples=examples(40), deadline=None)
@given(STEPS)
def test_changes_replayed_are_the_table(steps):
    with nyala.connect(":memory:", threads=1) as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT) PARTITION BY HASH (k) INTO 2 BUCKETS")
        table = connection.table("t")
        followed, net, since, seen = {}, {}, 0, []
        for number, (step, key) in enumerate([*steps, ("look", 0)]):
            if step == "flush":
                connection.store.flush()
            elif step != "look":
                getattr(table, step)((key,) if step.startswith("delete") else (key, number))
            else:
                changes = table.changes(since, batch_rows=3)
                replay(followed, changes.to_arrow().to_pylist())
                seen += changes.to_arrow()["_changed_at"].to_pylist()
                replay(net, table.changes(since, changes.until, net=True).to_arrow().to_pylist())
                assert changes.since == since and changes.count() == changes.to_arrow().num_rows
                since = changes.until
                now = {row["k"]: row["v"] for row in table.scan(as_of=since).to_arrow().to_pylist()}
                assert followed == net == now
        assert len(table.changes(0).to_arrow()) == len(seen)


def test_projection_and_conditions_are_of_the_rows_shown(connection):
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT)")
    table = connection.table("t")
    since = table.insert([(1, 1), (2, 2)]).timestamp
    table.update((1, 5))
    table.delete((2,))
    changes = table.changes(since, columns=["v"], predicates=col("v") >= 2)
    assert changes.schema.names == ["v", "_change", "_changed_at"]
    assert [(r["v"], r["_change"]) for r in changes.to_arrow().to_pylist()] == [(5, "update"), (2, "delete")]
    assert table.changes(changes.until).to_arrow().num_rows == 0
    with pytest.raises(nyala.DataError, match="comes after"):
        table.changes(changes.until, since)


def test_a_column_of_that_name_is_in_the_way(connection):
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY, _change INT)")
    with pytest.raises(nyala.ProgrammingError, match="rename it"):
        connection.table("t").changes(0)

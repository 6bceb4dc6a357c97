"""The catalog in memory equals its rows, after every change and after every restart."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.cluster.master.catalog.catalog_changes import (
    altered,
    created,
    dropped,
    forgotten_calls,
    namespace_created,
    namespace_dropped,
    replaced,
    settled,
    view_created,
    views_dropped,
    with_call,
)
from nyala.cluster.master.catalog.catalog_state import CatalogState, Fate
from nyala.cluster.master.catalog.records import (
    AbsenceRecord,
    CallRecord,
    Change,
    ClusterRecord,
    ServerRecord,
    TableState,
    decode_record,
    encode_record,
)
from nyala.cluster.master.directory import Observed
from nyala.cluster.raft.messages import Configuration
from nyala.errors import (
    DependentObjects,
    DuplicateSchema,
    DuplicateTable,
    Error,
    UnknownSchema,
    UnknownTable,
    UnsupportedFormat,
)
from nyala.model.alterations import AddColumn, AddRangePartition, DropRangePartition, RenameTable, SetReplicas
from nyala.model.namespaces import Namespace, full_name
from nyala.model.schema import (
    ColumnSchema,
    HashRule,
    PartitionSchema,
    RangePartition,
    RangeRule,
    Schema,
    TableDefinition,
    View,
)
from nyala.model.types import BIGINT, DataType, Kind

from tests.master_support import configuration, report

COLUMNS = (
    ColumnSchema("k", BIGINT, nullable=False),
    ColumnSchema("d", DataType(Kind.DECIMAL, 38, 0), default=10**30),
)
START = CatalogState.from_records([ClusterRecord("c")])


def definition(name: str, ranges: int = 0, buckets: int = 0) -> TableDefinition:
    rule = RangeRule(("k",), tuple(RangePartition((10 * i,), (10 * i + 10,)) for i in range(ranges)))
    rules = (HashRule(("k",), buckets),) if buckets else ()
    return TableDefinition(name, Schema(COLUMNS, 1), PartitionSchema(rules, rule if ranges else None))


def place(table_id: str, count: int, replicas: int) -> Sequence[Configuration]:
    return [configuration(*"abc"[:replicas])] * count


class Rows:
    """A system tablet as a dictionary."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], bytes] = {}

    def write(self, change: Change) -> None:
        keys = list(change.keys)
        assert len(keys) == len(set(keys))
        for key in change.removes:
            del self.rows[key]
        self.rows.update({record.key: encode_record(record) for record in change.puts})

    def load(self) -> CatalogState:
        return CatalogState.from_records(decode_record(*key, body) for key, body in self.rows.items())


def content(state: CatalogState) -> dict[str, Any]:
    return {field.name: getattr(state, field.name) for field in fields(state)}


NAMES = st.sampled_from(["a", "b", "c"])
STEPS = st.one_of(
    st.tuples(st.just("create"), NAMES, st.integers(0, 3)),
    st.tuples(st.just("rename"), NAMES, NAMES),
    st.tuples(st.just("column"), NAMES, NAMES),
    st.tuples(st.just("replicas"), NAMES, st.sampled_from((1, 3, 5, 7))),
    st.tuples(st.just("add range"), NAMES, st.integers(0, 5)),
    st.tuples(st.just("drop range"), NAMES, st.integers(0, 5)),
    st.tuples(st.just("drop"), NAMES, NAMES),
    st.tuples(st.just("view"), NAMES, st.booleans()),
    st.tuples(st.just("drop views"), NAMES, st.just(0)),
    st.tuples(st.just("namespace"), NAMES, st.just(0)),
    st.tuples(st.just("create within"), NAMES, NAMES),
    st.tuples(st.just("drop namespace"), NAMES, st.booleans()),
    st.tuples(st.just("replace"), NAMES, st.integers(0, 3)),
    st.tuples(st.just("settle"), NAMES, st.integers(0, 9)),
    st.tuples(st.just("leave"), NAMES, st.booleans()),
    st.tuples(st.just("maintain"), NAMES, st.booleans()),
)


def change_of(state: CatalogState, kind: str, name: str, other: Any) -> Change:
    match kind:
        case "create":
            return created(state, definition(name, other), 3, place)[0]
        case "rename":
            return altered(state, name, [RenameTable(other)], place)[0]
        case "column":
            return altered(state, name, [AddColumn(ColumnSchema(f"{other}{state.catalog.version}", BIGINT))], place)[0]
        case "replicas":
            change, table = altered(state, name, [SetReplicas(other)], place)
            assert table.replicas == table.table.replicas == other
            return change
        case "add range":
            return altered(state, name, [AddRangePartition(RangePartition((10 * other,), (10 * other + 10,)))], place)[
                0
            ]
        case "drop range":
            part = RangePartition((10 * other,), (10 * other + 10,))
            return altered(state, name, [DropRangePartition(part)], place)[0]
        case "drop":
            return dropped(state, name, [other])
        case "view":
            return view_created(state, View(name, "SELECT 1", ("x",)), other)
        case "drop views":
            return views_dropped(state, [name, name])
        case "namespace":
            return namespace_created(state, Namespace(name))
        case "create within":
            inside = replace(definition(full_name(name, other)), namespace=name)
            return created(state, inside, 3, place)[0]
        case "drop namespace":
            tables = state.catalog.names_within(name) if other else []
            return namespace_dropped(state, name, tables, ["b"])
        case "replace":
            table = state.table(name)
            return replaced(state, table, table.entry.tablet_ids[other : other + 1], place)
        case "settle":
            version = state.table(name).table.version
            seen = {
                tablet.id: Observed(tablet.configuration, "a", 1).reported(
                    "a", report(tablet.id, role="LEADER", version=version, index=other)
                )
                for tablet in state.tablets.values()
            }
            return settled(state, seen)
        case "maintain":
            absence = AbsenceRecord(name)
            return Change((absence,)) if other else Change((), (absence.key,) if name in state.absent else ())
        case _:
            is_there = name in state.leaving
            record = ServerRecord(name)
            return Change((record,)) if other else Change((), (record.key,) if is_there else ())


@settings(max_examples=examples(200))
@given(st.lists(STEPS, max_size=25))
def test_memory_is_what_rows_say(steps: list[tuple[str, str, Any]]) -> None:
    rows, state = Rows(), START
    rows.write(Change((ClusterRecord("c"),)))
    used: set[str] = set()
    for number, (kind, name, other) in enumerate(steps):
        before = state
        try:
            change = change_of(state, kind, name, other)
        except Error:
            continue
        change = with_call(state, change, CallRecord("client", number, float(number)), number - 3)
        rows.write(change)
        state = state.applied(change)
        assert content(rows.load()) == content(state)

        if kind not in ("settle", "leave", "maintain"):
            assert state.catalog.version == before.catalog.version + 1
        assert {e.table.id for e in state.catalog.entries.values()} == state.tables.keys()
        listed = [t for table in state.tables.values() for t in table.entry.tablet_ids]
        assert sorted(listed) == sorted(state.tablets)
        new = state.tablets.keys() - before.tablets.keys()
        assert not new & used, "an id of a tablet was used twice"
        used |= new
        gone = {t: before.tablets[t].table_id for t in before.tablets.keys() - state.tablets.keys()}
        assert all(state.fate(table_id, tablet) is Fate.DROPPED for tablet, table_id in gone.items())
        assert all(state.fate(t.table_id, t.id) is Fate.KEPT for t in state.tablets.values())
        assert len(state.calls) <= 4
    assert state.fate("t000099", "t000099-p0000") is Fate.ALIEN
    for table in state.tables.values():
        assert state.fate(table.id, f"{table.id}-p{table.entry.next_tablet:04d}") is Fate.ALIEN


def test_a_table_runs_when_all_tablets_serve_its_version() -> None:
    change, table = created(START, definition("t", ranges=2), 3, place)
    state = START.applied(change)
    one, two = table.entry.tablet_ids
    seen = {id_: Observed(configuration("a", "b", "c")) for id_ in (one, two)}
    assert not settled(state, seen)
    seen[one] = seen[one].reported("a", report(one, role="LEADER"))
    state = state.applied(settled(state, seen))
    assert state.tablets[one].is_created
    assert state.table("t").state is TableState.CREATING
    seen[two] = seen[two].reported("b", report(two, role="LEADER", serving=False))
    assert not settled(state, seen)
    seen[two] = seen[two].reported("b", report(two, role="LEADER"))
    state = state.applied(settled(state, seen))
    assert state.table("t").state is TableState.RUNNING
    assert not settled(state, seen)
    state = state.applied(altered(state, "t", [RenameTable("u")], place)[0])
    assert state.table("u").state is TableState.ALTERING
    assert not settled(state, seen)
    for id_, leader in ((one, "a"), (two, "b")):
        seen[id_] = seen[id_].reported(leader, report(id_, role="LEADER", version=1))
    assert state.applied(settled(state, seen)).table("u").state is TableState.RUNNING


def test_errors_are_those_of_the_embedded_store() -> None:
    state = START.applied(created(START, definition("t"), 3, place)[0])
    state = state.applied(view_created(state, View("v", "SELECT 1", ("x",)), False))
    with pytest.raises(DuplicateTable, match="table t exists already"):
        view_created(state, View("t", "SELECT 1", ("x",)), True)
    with pytest.raises(DuplicateTable, match="view v exists already"):
        created(state, definition("v"), 3, place)
    with pytest.raises(DuplicateTable, match="v exists already"):
        altered(state, "t", [RenameTable("v")], place)
    with pytest.raises(UnknownTable, match="view t does not exist"):
        views_dropped(state, ["v", "t"])


def test_namespaces_go_with_their_tables_or_not_at_all() -> None:
    state = START.applied(namespace_created(START, Namespace("a")))
    with pytest.raises(DuplicateSchema, match="schema a exists already"):
        namespace_created(state, Namespace("a"))
    with pytest.raises(UnknownSchema, match="schema b does not exist"):
        created(state, replace(definition("b.t"), namespace="b"), 3, place)
    change, table = created(state, replace(definition("a.t", ranges=2), namespace="a"), 3, place)
    state = state.applied(change)
    with pytest.raises(DependentObjects, match=r"schema a has a\.t"):
        namespace_dropped(state, "a", [], [])
    gone = state.applied(namespace_dropped(state, "a", ["a.t"], []))
    assert not gone.tables and not gone.tablets and not gone.catalog.namespaces
    assert {gone.fate(table.id, tablet) for tablet in table.tablets} == {Fate.DROPPED}


def test_old_calls_are_forgotten() -> None:
    state = START.applied(Change(tuple(CallRecord("c", i, float(i)) for i in range(10))))
    left = state.applied(forgotten_calls(state, 105.0, 100.0)).calls
    assert sorted(sequence for _, sequence in left) == [5, 6, 7, 8, 9]


def test_rows_of_a_newer_nyala_are_refused() -> None:
    with pytest.raises(UnsupportedFormat, match="row tablet x of format None"):
        decode_record("tablet", "x", b"\x80")
    with pytest.raises(UnsupportedFormat, match="row novelty"):
        decode_record("novelty", "x", encode_record(ClusterRecord("c")))

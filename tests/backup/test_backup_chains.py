"""Manifests keep every definition, chains are the backups of a time, and changes become rows."""

import datetime
import json
from dataclasses import replace

import nyala
import pyarrow as pa
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.backup import manifest
from nyala.backup.chains import chain_at, chains, table_chains
from nyala.backup.folding import conformed, fold
from nyala.backup.manifest import Backup, SavedFile, SavedTable
from nyala.backup.places import Place
from nyala.errors import CorruptionError, DataError, OperationalError, UnknownTable
from nyala.model.clock import format_timestamp, make_timestamp
from nyala.model.schema import ColumnSchema, PartitionSchema, Schema, Table, View
from nyala.model.types import BINARY, INT, STRING


def table(table_id="t1", name="t", columns=None, version=0):
    made = columns or (
        ColumnSchema("k", INT, False, 0),
        ColumnSchema("g", STRING, False, 1),
        ColumnSchema("v", INT, id=2),
    )
    return Table(table_id, name, Schema(tuple(made), 2), PartitionSchema(), version)


def saved(definition, base=None, tablets=("p0",), files=()):
    return SavedTable(definition, "CREATE TABLE ...", tablets, base, tuple(files))


def backup(number, snapshot, parent=None, tables=()):
    since = None if parent is None else parent.snapshot
    parent_id = None if parent is None else parent.id
    return Backup(number, f"id{number}", parent_id, since, snapshot, "", "dir", "", "1", True, tuple(tables))


def file(path, kind="changes", tablet="p0"):
    return SavedFile(path, kind, tablet, 1, 1, "")


# ---- manifests -------------------------------------------------------------------------------------------------------


def test_a_manifest_keeps_every_definition_and_tells_when_it_is_not_what_was_written(tmp_path):
    with nyala.connect(":memory:") as connection:
        connection.execute(
            "CREATE TABLE t (k INT, b BINARY DEFAULT x'00ff', w DECIMAL(38,2) DEFAULT 12345678901234567890.5, "
            "d DOUBLE DEFAULT 0.1, PRIMARY KEY (k)) DISTRIBUTE BY HASH (k) INTO 3 BUCKETS, RANGE (k) "
            "(PARTITION VALUES < 5, PARTITION 5 <= VALUES HASH (k) INTO 2 BUCKETS)"
        )
        definition = connection.store.table("t")
    made = backup(1, 77, tables=[saved(definition, 77, ("a", "b"), [file("x", "rows")])])
    made = Backup(
        **{name: getattr(made, name) for name in made.__slots__ if name != "views"},
        views=(View("v", "SELECT 1", ("a",)),),
    )
    assert manifest.to_plain(made, "then")["format"] == 1  # earlier versions read it
    place = Place.of(tmp_path)
    manifest.write(place, made, "then")
    assert manifest.read_all(place) == [made]
    path = tmp_path / "000001" / manifest.NAME
    whole = path.read_text()
    for damaged in (whole.replace('"number": 1', '"number": 2'), whole[:-20], "[]"):
        path.write_text(damaged)
        with pytest.raises(CorruptionError):
            manifest.read(place, "000001")
    newer = json.loads(whole)
    newer["backup"]["format"] = 99
    newer["sha256"] = manifest._digest(newer["backup"])
    path.write_text(json.dumps(newer))
    with pytest.raises(OperationalError, match="format 99"):
        manifest.read(place, "000001")


def test_a_manifest_with_schemas_has_a_format_that_earlier_versions_refuse(tmp_path):
    staged = replace(table(name="staging.t"), namespace="staging")
    made = replace(backup(1, 77, tables=[saved(staged, 77)]), views=(View("a.v", "SELECT 1", ("a",), "", "a"),))
    assert manifest.to_plain(made, "then")["format"] == 2
    made = replace(made, namespaces=("a", "empty", "staging"))
    assert manifest.to_plain(replace(made, tables=()), "then")["format"] == 2
    place = Place.of(tmp_path)
    manifest.write(place, made, "then")
    assert manifest.read_all(place) == [made]


# ---- chains ----------------------------------------------------------------------------------------------------------


def moment(second):
    return make_timestamp(second * 1_000_000)


def test_a_moment_is_covered_by_the_first_backup_at_or_after_it_and_all_before_it_in_its_chain():
    one = backup(1, moment(10))
    two = backup(2, moment(20), one)
    three = backup(3, moment(30), two)
    four = backup(4, moment(50))
    orphan = backup(6, moment(70), backup(5, moment(60)))
    known = [one, two, three, four, orphan]
    assert [[b.number for b in chain.backups] for chain in chains(known)] == [[1, 2, 3], [4]]

    def numbers(at):
        return [b.number for b in chain_at(known, at)[0].backups]

    assert numbers(moment(10)) == [1] and numbers(moment(10) + 1) == [1, 2]
    assert numbers(moment(20)) == [1, 2] and numbers(moment(25)) == [1, 2, 3] and numbers(moment(50)) == [4]
    assert numbers(None) == [4]
    for outside in (moment(9), moment(31), moment(49), moment(50) + 1, moment(65), moment(70)):
        with pytest.raises(DataError, match="covered"):
            numbers(outside)


def test_a_moment_as_text_is_the_end_of_its_microsecond_or_the_snapshot_within_it():
    one = backup(1, make_timestamp(10_000_000, 7))
    two = backup(2, moment(20), one)
    assert chain_at([one, two], "1970-01-01 00:00:10")[1] == one.snapshot
    assert chain_at([one, two], "1970-01-01 00:00:11")[1] == make_timestamp(11_000_000, 4095)
    assert chain_at([one, two], format_timestamp(two.snapshot).removesuffix(" UTC"))[1] == two.snapshot
    assert chain_at([one, two], datetime.datetime(1970, 1, 1, 0, 0, 12))[1] == make_timestamp(12_000_000, 4095)


def test_a_table_is_made_of_its_last_base_and_the_changes_of_its_present_tablets():
    t, u = table(), table("t2", "u")
    one = backup(
        1, moment(10), None, [saved(t, moment(10), ("p0", "p1"), [file("a", "rows"), file("b", "rows", "p1")])]
    )
    two = backup(
        2, moment(20), one, [saved(t, None, ("p0", "p1"), [file("c")]), saved(u, moment(10), files=[file("d")])]
    )
    three = backup(3, moment(30), two, [saved(t, None, ("p0", "p2"), [file("e"), file("f", tablet="p2")])])
    chain, at = chain_at([one, two, three], moment(25))
    with pytest.raises(DataError, match="table u was dropped"):
        table_chains(chain, at)
    (found,) = table_chains(chain, at, ["t"])
    # p1 is gone: its range partition was dropped, which no change records.
    assert [[f.file.path for f in files] for files in found.tablets] == [["a", "c", "e"], ["f"]]
    with pytest.raises(UnknownTable, match="it holds t"):
        table_chains(chain, at, ["tt"])
    chain, at = chain_at([one, two, three], None)
    assert [c.definition.name for c in table_chains(chain, at)] == ["t"]
    chain, at = chain_at([one, two, three], moment(20))
    assert {c.definition.name for c in table_chains(chain, at)} == {"t", "u"}


# ---- folding ---------------------------------------------------------------------------------------------------------

KEYS = st.tuples(st.integers(-3, 3), st.sampled_from(["", "a", "b\0", "bb"]))
EVENTS = st.lists(st.tuples(KEYS, st.one_of(st.none(), st.integers(0, 9)), st.booleans()), max_size=30)
DEFINITION = table()


def as_batch(rows):
    ordered = sorted(rows.items(), key=lambda row: (row[0][0], row[0][1].encode()))
    columns = ([k for (k, _), _ in ordered], [g for (_, g), _ in ordered], [v for _, v in ordered])
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, DEFINITION.schema.arrow)], schema=DEFINITION.schema.arrow
    )


def as_changes(events):
    """By key and then in the order of time, as a diff scan gives them."""
    ordered = sorted(events, key=lambda event: (event[0][0], event[0][1].encode()))
    return pa.table(
        {
            "k": pa.array([key[0] for key, _, _, _ in ordered], pa.int32()),
            "g": pa.array([key[1] for key, _, _, _ in ordered], pa.string()),
            "v": pa.array([value for _, value, _, _ in ordered], pa.int32()),
            "_change": pa.array([change for _, _, change, _ in ordered], pa.string()),
            "_changed_at": pa.array([at for _, _, _, at in ordered], pa.int64()),
        }
    )


@settings(max_examples=examples(150), deadline=None)
@given(EVENTS, EVENTS, EVENTS, st.integers(0, 70), st.integers(1, 5))
def test_folding_gives_the_rows_of_the_moment(first, second, third, at, batch_rows):
    rows = {}
    for key, value, deletes in first:
        rows.pop(key, None) if deletes else rows.update({key: value})
    base, expected, now = as_batch(rows), dict(rows), 0
    increments = []
    for events in (second, third):
        told = []
        for key, value, deletes in events:
            now += 1
            if deletes and key not in rows:
                continue
            change = "delete" if deletes else "update" if key in rows else "insert"
            told.append((key, rows[key] if deletes else value, change, now))
            rows.pop(key) if deletes else rows.update({key: value})
            if now <= at:
                expected = dict(rows)
        increments.append(as_changes(told))
    pieces = [base.slice(start, batch_rows) for start in range(0, base.num_rows, batch_rows)]
    found = list(fold(DEFINITION, pieces, increments, at))
    assert all(batch.num_rows for batch in found)
    assert pa.Table.from_batches(found, DEFINITION.schema.arrow).equals(pa.Table.from_batches([as_batch(expected)]))


def test_rows_of_an_earlier_definition_show_what_the_table_shows_today():
    k, g, v = DEFINITION.schema.columns
    later = table(
        columns=(
            ColumnSchema("k2", INT, False, 0),
            g,
            ColumnSchema("n", INT, False, 3, default=9, initial=7),
            ColumnSchema("b", BINARY, True, 4),
        )
    )
    found = conformed(as_batch({(1, "x"): 5}), DEFINITION, later)
    assert found.to_pylist() == [{"k2": 1, "g": "x", "n": 7, "b": None}]
    assert found.schema == later.schema.arrow and k.id == 0 and v.name not in found.schema.names

"""ALTER TABLE as a function of tables: what every step does, and the error of each that cannot be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from columnar_support import make_schema
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import DuplicateTable, InvalidTableDefinition, UnknownColumn
from nyala.model.alterations import (
    AddColumn,
    AddRangePartition,
    AlterStep,
    DropColumn,
    DropRangePartition,
    RenameColumn,
    RenameTable,
    SetComment,
    SetDefault,
    SetReplicas,
    SetStorage,
)
from nyala.model.altered_table import apply_steps, check_same_columns
from nyala.model.partitions.partition import Partitioner
from nyala.model.schema import (
    AUTO_INCREMENT_COLUMN,
    MAX_COLUMNS,
    ColumnSchema,
    Compression,
    Encoding,
    HashRule,
    PartitionSchema,
    RangePartition,
    RangeRule,
    Schema,
    Table,
    TableDefinition,
    check_partitions,
    non_unique_key,
)
from nyala.model.types import BIGINT, DECIMAL, DOUBLE, INT, STRING
from nyala.storage.files.memory_filesystem import MemoryFileSystem
from nyala.storage.tables.catalog import Catalog

PARTITIONS = PartitionSchema(
    (HashRule(("a",), 2),), RangeRule(("b",), (RangePartition(None, (0,)), RangePartition((10,), (20,))))
)
SCHEMA = make_schema(("a", STRING), ("b", INT, False), ("v", STRING), ("w", BIGINT), key=2)
TABLE = Table("t1", "t", SCHEMA, PARTITIONS, version=4, next_column_id=4)


def alter(*steps: AlterStep, table: Table = TABLE) -> Table:
    return apply_steps(table, steps, ("other",))


def test_an_added_column_has_a_new_id_and_shows_its_default() -> None:
    table = alter(AddColumn(ColumnSchema("x", DECIMAL(9, 2), nullable=False, default=125)))
    column = table.schema.column("x")
    assert (column.id, column.initial, column.default) == (4, 125, 125)
    assert (table.version, table.next_column_id, table.id) == (5, 5, "t1")
    later = alter(SetDefault("x", 7), table=table).schema.column("x")
    assert (later.initial, later.default) == (125, 7)


def test_a_dropped_name_may_come_back_as_another_column() -> None:
    table = alter(DropColumn("v"), AddColumn(ColumnSchema("v", INT)))
    assert [c.name for c in table.schema.columns] == ["a", "b", "w", "v"]
    assert table.schema.column("v").id == 4


def test_renaming_reaches_the_partition_rules() -> None:
    table = alter(RenameColumn("a", "host"), RenameColumn("b", "a"), RenameTable("renamed"))
    assert table.name == "renamed"
    assert [(c.name, c.id) for c in table.schema.columns[:2]] == [("host", 0), ("a", 1)]
    assert table.partitions.hash_rules[0].columns == ("host",)
    assert table.partitions.range_rule is not None and table.partitions.range_rule.columns == ("a",)


def test_names_may_be_swapped_step_by_step() -> None:
    table = alter(RenameColumn("v", "x"), RenameColumn("w", "v"), RenameColumn("x", "w"))
    assert {c.name: c.id for c in table.schema.columns[2:]} == {"w": 2, "v": 3}


def test_storage_and_comments() -> None:
    steps = (
        SetStorage("w", Encoding.BIT_SHUFFLE, Compression.ZSTD, 4096),
        SetStorage("w", block_size=8192),
        SetComment("w", "wide"),
        SetComment(None, "all"),
    )
    column = alter(*steps).schema.column("w")
    assert (column.encoding, column.compression, column.block_size) == (Encoding.BIT_SHUFFLE, Compression.ZSTD, 8192)
    assert (column.comment, alter(*steps).comment) == ("wide", "all")


def test_replicas() -> None:
    assert alter(SetReplicas(3), SetReplicas(5)).replicas == 5


def test_range_partitions_stay_in_order() -> None:
    added = alter(AddRangePartition(RangePartition((0,), (10,))), AddRangePartition(RangePartition((30,), None)))
    assert added.partitions.range_rule is not None
    assert [p.lower for p in added.partitions.range_rule.partitions] == [None, (0,), (10,), (30,)]
    check_partitions(added.schema, added.partitions)
    dropped = alter(*(DropRangePartition(p) for p in added.partitions.range_rule.partitions), table=added)
    assert Partitioner(dropped.schema, dropped.partitions).partitions == ()
    again = alter(AddRangePartition(RangePartition(None, None)), table=dropped)
    assert len(Partitioner(again.schema, again.partitions).partitions) == 2


@pytest.mark.parametrize(
    ("step", "error", "words"),
    [
        (RenameTable("other"), DuplicateTable, "other exists already"),
        (RenameTable(""), InvalidTableDefinition, "cannot be renamed to an empty name"),
        (DropColumn("vv"), UnknownColumn, "column vv does not exist; the table has a, b, v, w"),
        (DropColumn("a"), InvalidTableDefinition, "part of the primary key"),
        (RenameColumn("x", "y"), UnknownColumn, "the table has a, b, v, w"),
        (RenameColumn("v", "w"), InvalidTableDefinition, "has a column w already"),
        (RenameColumn("v", AUTO_INCREMENT_COLUMN), InvalidTableDefinition, "hidden column"),
        (AddColumn(ColumnSchema("v", INT)), InvalidTableDefinition, "has a column v already"),
        (AddColumn(ColumnSchema("x", INT, nullable=False)), InvalidTableDefinition, "needs a DEFAULT"),
        (AddColumn(ColumnSchema("x", INT, default="one")), InvalidTableDefinition, "'one' cannot be the DEFAULT"),
        (AddColumn(ColumnSchema("x", INT, default=2**40)), InvalidTableDefinition, "not a value of type INT"),
        (AddColumn(ColumnSchema("x", INT, encoding=Encoding.DICT)), InvalidTableDefinition, "cannot be stored as DICT"),
        (AddColumn(ColumnSchema("x", INT, block_size=-1)), InvalidTableDefinition, "block size of -1"),
        (AddColumn(ColumnSchema("x", BIGINT, auto_increment=True)), InvalidTableDefinition, "auto-incrementing"),
        (SetDefault("w", "seven"), InvalidTableDefinition, "'seven' cannot be the DEFAULT of column w"),
        (SetDefault("ww", 1), UnknownColumn, "column ww does not exist"),
        (SetReplicas(2), InvalidTableDefinition, "REPLICAS must be 1, 3, 5 or 7, not 2"),
        (SetReplicas(9), InvalidTableDefinition, "not 9"),
        (SetReplicas(-1), InvalidTableDefinition, "not -1"),
        (SetStorage("w", Encoding.PREFIX), InvalidTableDefinition, "cannot be stored as PREFIX"),
        (SetStorage("w", block_size=1 << 40), InvalidTableDefinition, "block size"),
        (SetComment("x", "?"), UnknownColumn, "column x does not exist"),
        (AddRangePartition(RangePartition((-5,), (5,))), InvalidTableDefinition, "-5 <= b < 5 overlaps b < 0"),
        (AddRangePartition(RangePartition((15,), None)), InvalidTableDefinition, "overlaps 10 <= b < 20"),
        (AddRangePartition(RangePartition((9,), (9,))), InvalidTableDefinition, "is empty"),
        (AddRangePartition(RangePartition((1, 2), (9,))), InvalidTableDefinition, "one value for each of"),
        (AddRangePartition(RangePartition((None,), (9,))), InvalidTableDefinition, "cannot be NULL"),
        (AddRangePartition(RangePartition(("x",), None)), InvalidTableDefinition, "'x' cannot bound"),
        (DropRangePartition(RangePartition((10,), (15,))), InvalidTableDefinition, "it has b < 0; 10 <= b < 20"),
    ],
    ids=str,
)
def test_what_cannot_be_says_why(step: AlterStep, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        alter(SetComment(None, "before"), step)
    assert words in str(caught.value)


def test_no_steps_no_ranges_and_too_many_columns() -> None:
    with pytest.raises(InvalidTableDefinition, match="without any step"):
        alter()
    plain = replace(TABLE, partitions=PartitionSchema())
    for step in (AddRangePartition(RangePartition(None, None)), DropRangePartition(RangePartition(None, None))):
        with pytest.raises(InvalidTableDefinition, match="not partitioned by RANGE"):
            alter(step, table=plain)
    with pytest.raises(InvalidTableDefinition, match=f"limit of {MAX_COLUMNS}"):
        alter(*(AddColumn(ColumnSchema(f"x{i}", INT)) for i in range(MAX_COLUMNS - 3)))


def test_a_name_that_means_another_column_now_is_noticed() -> None:
    swapped = alter(RenameColumn("v", "x"), RenameColumn("w", "v"))
    check_same_columns(TABLE, swapped, ("a", "b"))
    with pytest.raises(UnknownColumn, match="another one since the table was altered"):
        check_same_columns(TABLE, swapped, ("a", "v"))


# ---- non-unique keys ---------------------------------------------------------------------------------------------


def test_a_non_unique_key_gets_a_hidden_last_column() -> None:
    plain = (ColumnSchema("a", INT, False), ColumnSchema("b", INT, False), ColumnSchema("v", STRING))
    schema = non_unique_key(plain, 2)
    assert [c.name for c in schema.key] == ["a", "b", AUTO_INCREMENT_COLUMN]
    assert [c.name for c in schema.visible_columns] == ["a", "b", "v"]
    assert schema.auto_increment is schema.key[-1] and SCHEMA.auto_increment is None
    table = Table("t", "t", schema, PartitionSchema(), next_column_id=4)
    for step in (DropColumn(AUTO_INCREMENT_COLUMN), RenameColumn(AUTO_INCREMENT_COLUMN, "n")):
        with pytest.raises(InvalidTableDefinition):
            alter(step, table=table)
    with pytest.raises(InvalidTableDefinition, match="auto-incrementing"):
        alter(SetDefault(AUTO_INCREMENT_COLUMN, 1), table=table)
    with pytest.raises(InvalidTableDefinition, match="cannot partition"):
        check_partitions(schema, PartitionSchema((HashRule((AUTO_INCREMENT_COLUMN,), 2),)))


@pytest.mark.parametrize(
    ("columns", "key"),
    [
        ([ColumnSchema(AUTO_INCREMENT_COLUMN, BIGINT, False)], 1),
        ([ColumnSchema(AUTO_INCREMENT_COLUMN, INT, False, auto_increment=True)], 1),
        ([ColumnSchema("a", INT, False), ColumnSchema(AUTO_INCREMENT_COLUMN, BIGINT, False, auto_increment=True)], 1),
        ([ColumnSchema(AUTO_INCREMENT_COLUMN, BIGINT, False, auto_increment=True), ColumnSchema("a", INT, False)], 2),
        ([ColumnSchema("n", BIGINT, False, auto_increment=True)], 1),
    ],
)
def test_other_auto_incrementing_columns_cannot_be(columns: list[ColumnSchema], key: int) -> None:
    with pytest.raises(InvalidTableDefinition, match=r"auto-incrementing|hidden column"):
        Schema(tuple(columns), key)


# ---- the catalog -------------------------------------------------------------------------------------------------


def test_the_catalog_keeps_all_that_a_table_has() -> None:
    schema = non_unique_key((ColumnSchema("a", STRING, False), ColumnSchema("b", INT, False)), 2)
    before = Catalog().with_table(TableDefinition("t", schema, PARTITIONS))
    steps: tuple[AlterStep, ...] = (
        AddColumn(ColumnSchema("x", DOUBLE, default=float("-inf"), immutable=True, block_size=5000)),
        AddColumn(ColumnSchema("y", DECIMAL(38, 0), default=-(10**37))),
        RenameTable("renamed"),
        SetDefault("x", None),
    )
    after = before.with_altered("t", apply_steps(before.entries["t"].table, steps))
    fs = MemoryFileSystem()
    fs.make_directory("db")
    after.write(fs, "db/catalog")
    assert Catalog.read(fs, "db/catalog") == after
    assert list(after.entries) == ["renamed"] and after.version == before.version + 1


@settings(max_examples=examples(100))
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=20))
def test_tablets_keep_their_partitions_and_no_id_is_used_twice(changes: list[tuple[bool, int]]) -> None:
    catalog = Catalog().with_table(TableDefinition("t", SCHEMA, PARTITIONS))
    homes: dict[str, Any] = {}
    for adds, number in changes:
        entry = catalog.entries["t"]
        partition = RangePartition((100 * number,), (100 * number + 100,))
        step = AddRangePartition(partition) if adds else DropRangePartition(partition)
        try:
            table = apply_steps(entry.table, [step])
        except InvalidTableDefinition:
            continue
        catalog = catalog.with_altered("t", table)
        entry = catalog.entries["t"]
        partitions = Partitioner(table.schema, table.partitions).partitions
        assert len(partitions) == len(set(entry.tablet_ids)) == len(entry.tablet_ids)
        for tablet, home in zip(entry.tablet_ids, partitions):
            assert homes.setdefault(tablet, (home.buckets, home.range)) == (home.buckets, home.range)

"""Physical values, tables, scans and statistics survive the wire unchanged."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.cluster.wire.messages import plain
from nyala.errors import Error, ProtocolError
from nyala.model import alterations
from nyala.model.codec.predicates import MOST_PLACES, predicate_from_plain, predicate_to_plain
from nyala.model.codec.values import (
    key_from_plain,
    key_to_plain,
    map_from_plain,
    map_to_plain,
    value_from_plain,
    value_to_plain,
)
from nyala.model.predicates import AnyOf, BitmapFilter, BloomFilter, InList, IsNull, Range
from nyala.model.schema import (
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
    View,
    non_unique_key,
)
from nyala.model.store import (
    ChangeRange,
    ColumnStatistics,
    ColumnStorage,
    EvenSplit,
    ScanSpec,
    TableStatistics,
    TableStorage,
    Timestamp,
)
from nyala.model.types import DataType, Interval, Kind
from nyala.storage.tables.catalog import CatalogEntry


def travelled(data: Any) -> Any:
    """Returns a value as it arrives at the other side, of a field that may hold anything."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(data))


# ---- what there is to send ------------------------------------------------------------------------------------------

names = st.text(min_size=1, max_size=8)
integers = st.integers(-(10**38), 10**38) | st.sampled_from([2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 0])
intervals = st.builds(Interval, *[st.integers(-(2**31), 2**31 - 1)] * 2, st.integers(-(2**63), 2**63 - 1))
values = (
    st.none() | st.booleans() | integers | st.floats(allow_nan=False) | st.text(max_size=9) | st.binary(max_size=9)
) | intervals
bounds = st.none() | st.tuples(values, values)
hash_rules = st.lists(
    st.builds(HashRule, st.lists(names, min_size=1, max_size=2).map(tuple), st.integers(2, 9), st.integers(0, 2**32)),
    max_size=2,
).map(tuple)
range_partitions = st.builds(RangePartition, bounds, bounds, st.none() | hash_rules)
partition_schemas = st.builds(
    PartitionSchema,
    hash_rules,
    st.none()
    | st.builds(
        RangeRule,
        st.lists(names, min_size=1, max_size=2).map(tuple),
        st.lists(range_partitions, max_size=3).map(tuple),
    ),
)


@st.composite
def types(draw: st.DrawFn) -> DataType:
    kind = draw(st.sampled_from([kind for kind in Kind if kind not in (Kind.INTERVAL, Kind.NULL)]))
    if kind is Kind.DECIMAL:
        precision = draw(st.integers(1, 38))
        return DataType(kind, precision, draw(st.integers(0, precision)))
    return DataType(kind, length=draw(st.none() | st.integers(1, 99)) if kind is Kind.STRING else None)


columns = st.builds(
    ColumnSchema,
    name=names,
    type=types(),
    nullable=st.booleans(),
    id=st.integers(-1, 300),
    default=values,
    encoding=st.sampled_from(Encoding),
    compression=st.sampled_from(Compression),
    comment=st.text(max_size=5),
    initial=values,
    immutable=st.booleans(),
    block_size=st.integers(0, 1 << 20),
)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    key = ColumnSchema("the key", DataType(draw(st.sampled_from([Kind.INT, Kind.STRING]))), nullable=False)
    others = draw(st.lists(columns, max_size=4, unique_by=lambda column: column.name))
    every = (key, *(column for column in others if column.name != key.name))
    return non_unique_key(every, 1) if draw(st.booleans()) else Schema(every, 1)


tables = st.builds(
    Table,
    id=names,
    name=names,
    schema=schemas(),
    partitions=partition_schemas,
    version=st.integers(0, 2**40),
    comment=st.text(max_size=5),
    next_column_id=st.integers(0, 400),
)
simple_predicates = (
    st.builds(Range, names, values, values, st.booleans(), st.booleans())
    | st.builds(InList, names, st.lists(values, max_size=4).map(tuple))
    | st.builds(IsNull, names, st.booleans())
)
predicates = simple_predicates | st.builds(AnyOf, names, st.lists(simple_predicates, max_size=3).map(tuple))
specs = st.builds(
    ScanSpec,
    columns=st.lists(names, max_size=3).map(tuple),
    predicates=st.lists(predicates, max_size=3).map(tuple),
    snapshot=st.none() | st.integers(0, 2**62).map(Timestamp),
    split_rows=st.none() | st.integers(1, 10**6),
    ordered=st.booleans(),
    limit=st.none() | st.integers(0, 10**6),
    changes=st.none() | st.builds(ChangeRange, st.integers(0, 2**62).map(Timestamp), st.booleans()),
    tablet=st.none() | names,
    fragment=st.binary(max_size=5),
)
steps = st.one_of(
    st.builds(alterations.RenameTable, names),
    st.builds(alterations.AddColumn, columns),
    st.builds(alterations.DropColumn, names),
    st.builds(alterations.RenameColumn, names, names),
    st.builds(alterations.SetDefault, names, values),
    st.builds(
        alterations.SetStorage,
        names,
        st.none() | st.sampled_from(Encoding),
        st.none() | st.sampled_from(Compression),
        st.none() | st.integers(0, 1 << 20),
    ),
    st.builds(alterations.SetComment, st.none() | names, st.text(max_size=5)),
    st.builds(alterations.SetOwner, names),
    st.builds(alterations.SetReplicas, st.integers(1, 7)),
    st.builds(alterations.AddRangePartition, range_partitions),
    st.builds(alterations.DropRangePartition, range_partitions),
)
statistics = st.builds(
    TableStatistics,
    st.integers(0, 2**50),
    st.dictionaries(
        names,
        st.builds(
            ColumnStatistics, values, values, st.integers(0, 2**50), st.none() | st.floats(0, 1e18, allow_nan=False)
        ),
        max_size=3,
    ),
)
storages = st.builds(
    TableStorage,
    *[st.integers(0, 2**50)] * 3,
    st.dictionaries(
        names,
        st.builds(
            ColumnStorage,
            st.integers(0, 2**50),
            st.lists(names, max_size=2).map(tuple),
            st.none() | st.floats(0, 99),
        ),
        max_size=3,
    ),
)


# ---- it comes out as it went in --------------------------------------------------------------------------------------


def same(left: Any, right: Any) -> bool:
    """True if two values are equal, and of one class: 1 is not True, nor 1.0."""
    if isinstance(left, tuple) and isinstance(right, tuple) and type(left) is type(right):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and left == right


@given(values)
def test_a_value(value: Any) -> None:
    assert same(value_from_plain(travelled(value_to_plain(value))), value)


@given(st.lists(values, max_size=4).map(tuple), st.dictionaries(names, values, max_size=4))
def test_keys_and_rows(key: tuple[Any, ...], row: dict[str, Any]) -> None:
    assert same(key_from_plain(travelled(key_to_plain(key))), key)
    came = map_from_plain(travelled(map_to_plain(row)))
    assert came.keys() == row.keys() and all(same(came[name], row[name]) for name in row)


def test_values_of_numpy_and_not_a_number() -> None:
    assert same(value_from_plain(travelled(value_to_plain(np.int32(7)))), 7)
    assert math.isnan(value_from_plain(travelled(value_to_plain(float("nan")))))


@given(tables)
def test_a_table(table: Table) -> None:
    assert plain.table_from_plain(travelled(plain.table_to_plain(table))) == table


@given(tables, st.lists(names, max_size=3).map(tuple), st.integers(0, 99))
def test_a_table_with_tablets(table: Table, tablets: tuple[str, ...], next_tablet: int) -> None:
    entry = CatalogEntry(table, tablets, next_tablet)
    data = travelled(plain.entry_to_plain(entry))
    assert plain.entry_from_plain(data) == entry
    assert plain.table_from_plain(data) == table


@given(st.builds(TableDefinition, names, schemas(), partition_schemas, names, st.none() | st.integers(1, 7)))
def test_a_definition(definition: TableDefinition) -> None:
    assert plain.definition_from_plain(travelled(plain.definition_to_plain(definition))) == definition


@given(st.builds(View, names, st.text(), st.lists(names).map(tuple)))
def test_a_view(view: View) -> None:
    assert plain.view_from_plain(travelled(plain.view_to_plain(view))) == view


@given(steps)
def test_an_alteration(step: alterations.AlterStep) -> None:
    assert plain.step_from_plain(travelled(plain.step_to_plain(step))) == step


@given(specs)
def test_a_scan(spec: ScanSpec) -> None:
    assert plain.spec_from_plain(travelled(plain.spec_to_plain(spec))) == spec


@given(specs)
def test_how_the_client_divides_a_scan_does_not_travel(spec: ScanSpec) -> None:
    divided = replace(spec, split_evenly=EvenSplit(4, 1_000))
    assert plain.spec_from_plain(travelled(plain.spec_to_plain(divided))) == spec


@given(names, integers, st.lists(st.booleans(), max_size=70), st.lists(st.integers(0, 2**64 - 1), max_size=4))
def test_runtime_filters(column: str, base: int, bits: list[bool], words: list[int]) -> None:
    spec = ScanSpec(
        ("a",),
        (BitmapFilter(column, base, np.array(bits, np.bool_)), BloomFilter(column, np.array(words, np.uint64))),
    )
    bitmap, bloom = plain.spec_from_plain(travelled(plain.spec_to_plain(spec))).predicates
    assert isinstance(bitmap, BitmapFilter) and isinstance(bloom, BloomFilter)
    assert (bitmap.column, bitmap.base, bitmap.bits.tolist()) == (column, base, bits)
    assert bitmap.bits.dtype == np.bool_
    assert (bloom.column, bloom.words.tolist(), bloom.words.dtype) == (column, words, np.dtype(np.uint64))


@given(st.sets(st.integers(0, 9_999), max_size=200), st.integers(0, 64))
def test_sparse_bitmaps_travel_as_places(places: set[int], more: int) -> None:
    bits = np.zeros(10_000 + more, np.bool_)
    bits[list(places)] = True
    found = predicate_to_plain(BitmapFilter("a", -5, bits))
    assert ("places" in found) == (64 * len(places) < len(bits))
    assert len(found.get("places", found.get("bits"))) <= len(bits) / 8 + 1
    back = predicate_from_plain(travelled(found))
    assert isinstance(back, BitmapFilter) and back.base == -5
    assert back.bits.tolist() == bits.tolist()


@pytest.mark.parametrize(
    ("places", "count"), [([3], 3), ([0, 99], 10), ([], -1), ([], MOST_PLACES + 1), ([2**32 - 1], 100)]
)
def test_places_that_are_not_there_are_refused(places: list[int], count: int) -> None:
    told = {**predicate_to_plain(BitmapFilter("a", 0, np.zeros(100, np.bool_))), "count": count}
    with pytest.raises(ProtocolError):
        predicate_from_plain({**told, "places": np.array(places, "<u4").tobytes()})
    with pytest.raises(ProtocolError):
        predicate_from_plain({**told, "places": b"abc", "count": 100})


@given(statistics)
def test_statistics(known: TableStatistics) -> None:
    assert plain.statistics_from_plain(travelled(plain.statistics_to_plain(known))) == known


@given(storages)
def test_storage(storage: TableStorage) -> None:
    assert plain.storage_from_plain(travelled(plain.storage_to_plain(storage))) == storage


# ---- and nothing else comes out --------------------------------------------------------------------------------------

readers = [
    plain.table_from_plain,
    plain.entry_from_plain,
    plain.definition_from_plain,
    plain.view_from_plain,
    plain.step_from_plain,
    plain.spec_from_plain,
    predicate_from_plain,
    plain.statistics_from_plain,
    plain.storage_from_plain,
]
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=3) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(readers), anything)
def test_what_is_none_of_it(read: Any, data: Any) -> None:
    try:
        read(data)
    except Error as error:
        assert isinstance(error, ProtocolError)


@given(tables, specs, steps, statistics, st.data())
def test_what_was_damaged(
    table: Table, spec: ScanSpec, step: alterations.AlterStep, known: TableStatistics, data: st.DataObject
) -> None:
    """A field of another kind, or none: an error of nyala, or a value that can be sent again."""
    made: list[tuple[dict[str, Any], Any]] = [
        (plain.table_to_plain(table), plain.table_from_plain),
        (plain.spec_to_plain(spec), plain.spec_from_plain),
        (plain.step_to_plain(step), plain.step_from_plain),
        (plain.statistics_to_plain(known), plain.statistics_from_plain),
    ]
    whole, read = data.draw(st.sampled_from(made))
    name = data.draw(st.sampled_from(sorted(whole)))
    if data.draw(st.booleans()):
        del whole[name]
    else:
        whole[name] = data.draw(anything)
    try:
        read(travelled(whole))
    except Error as error:
        assert str(error)


def test_a_column_that_storage_refuses_is_refused_by_name() -> None:
    table = plain.table_to_plain(
        Table("t", "t", Schema((ColumnSchema("k", DataType(Kind.INT), nullable=False),), 1), PartitionSchema())
    )
    table["columns"] *= 2
    with pytest.raises(Error, match="column k occurs twice"):
        plain.table_from_plain(table)
    with pytest.raises(ProtocolError, match="there is no 'columns'"):
        plain.table_from_plain({})
    with pytest.raises(ProtocolError, match=r"there is no alteration 'AddColum'; did you mean AddColumn\?"):
        plain.step_from_plain({"step": "AddColum"})

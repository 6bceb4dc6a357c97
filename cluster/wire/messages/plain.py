"""Tables, alterations, scans and statistics as plain maps for msgpack, and back.

    table_to_plain        Table                 definition_to_plain   TableDefinition
    entry_to_plain        CatalogEntry          view_to_plain         View
    step_to_plain         AlterStep             spec_to_plain         ScanSpec, with its predicates
    statistics_to_plain   TableStatistics       storage_to_plain      TableStorage
    sketch_to_plain       ColumnSketch

Each has its `..._from_plain`. They are total: every value of these classes is restored unchanged, including integers
beyond 64 bits (`values`). A malformed map is a `ProtocolError`; a map that storage refuses (two columns of one name)
raises storage's error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from .... import errors
from ....model.alterations import (
    AddColumn,
    AddRangePartition,
    AlterStep,
    DropColumn,
    DropRangePartition,
    RenameColumn,
    RenameTable,
    SetComment,
    SetDefault,
    SetStorage,
)
from ....model.codec import tables
from ....model.codec.values import value_from_plain, value_to_plain
from ....model.predicates import AnyOf, BitmapFilter, BloomFilter, ColumnPredicate, InList, IsNull, Range
from ....model.schema import Compression, Encoding, Table, TableDefinition, View
from ....model.store import (
    ChangeRange,
    ColumnStatistics,
    ColumnStorage,
    ScanSpec,
    TableStatistics,
    TableStorage,
    Timestamp,
)
from ....storage.columns.sketch import ColumnSketch
from ....storage.tables.catalog import CatalogEntry, entry_from_dict, entry_to_dict

Plain = dict[str, Any]
T = TypeVar("T")


def _reads(what: str) -> Callable[[Callable[[Any], T]], Callable[[Mapping[str, Any]], T]]:
    """Turns any error of a malformed map into a `ProtocolError`."""

    def decorate(function: Callable[[Any], T]) -> Callable[[Mapping[str, Any]], T]:
        @wraps(function)
        def read(data: Mapping[str, Any]) -> T:
            try:
                return function(data)
            except errors.Error:
                raise
            except KeyError as error:
                raise errors.ProtocolError(f"malformed {what}: there is no {error}") from None
            except (TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
                raise errors.ProtocolError(f"malformed {what}: {error}") from None

        return read

    return decorate


# ---- tables ---------------------------------------------------------------------------------------------------------


def table_to_plain(table: Table) -> Plain:
    """Returns a table as plain data."""
    return _map_to_plain(tables.table_to_dict(table))


@_reads("table")
def table_from_plain(data: Plain) -> Table:
    """Returns the table of `table_to_plain` or `entry_to_plain`."""
    return tables.table_from_dict(_map_from_plain(data))


def entry_to_plain(entry: CatalogEntry) -> Plain:
    """Returns a table with the ids of its tablets as plain data."""
    return _map_to_plain(entry_to_dict(entry))


@_reads("table with tablets")
def entry_from_plain(data: Plain) -> CatalogEntry:
    """Returns the table with tablets of `entry_to_plain`."""
    return entry_from_dict(_map_from_plain(data))


def definition_to_plain(definition: TableDefinition) -> Plain:
    """Returns the definition of CREATE TABLE as plain data."""
    return _map_to_plain(tables.definition_to_dict(definition))


@_reads("table definition")
def definition_from_plain(data: Plain) -> TableDefinition:
    """Returns the definition of `definition_to_plain`."""
    return tables.definition_from_dict(_map_from_plain(data))


def view_to_plain(view: View) -> Plain:
    """Returns a view as plain data."""
    return {"name": view.name, "text": view.text, "columns": list(view.columns)}


@_reads("view")
def view_from_plain(data: Plain) -> View:
    """Returns the view of `view_to_plain`."""
    return View(data["name"], data["text"], tuple(data["columns"]))


# ---- alterations ----------------------------------------------------------------------------------------------------

_STEPS: dict[str, type[AlterStep]] = {
    step.__name__: step
    for step in (
        RenameTable,
        AddColumn,
        DropColumn,
        RenameColumn,
        SetDefault,
        SetStorage,
        SetComment,
        AddRangePartition,
        DropRangePartition,
    )
}
"""The steps by name. Their fields are sent unchanged, except those in `_STEP_FIELDS`."""

_STEP_FIELDS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "column": (tables.column_to_dict, tables.column_from_dict),
    "partition": (tables.range_partition_to_list, tables.range_partition_from_list),
    "encoding": (lambda encoding: encoding.value, Encoding),
    "compression": (lambda compression: compression.value, Compression),
}


def step_to_plain(step: AlterStep) -> Plain:
    """Returns a step of ALTER TABLE as plain data."""
    plain: Plain = {"step": type(step).__name__}
    for field in fields(step):
        value = getattr(step, field.name)
        if value is not None and field.name in _STEP_FIELDS:
            value = _STEP_FIELDS[field.name][0](value)
        plain[field.name] = value
    return _map_to_plain(plain)


@_reads("alteration")
def step_from_plain(data: Plain) -> AlterStep:
    """Returns the step of `step_to_plain`."""
    given = _map_from_plain(data)
    name = given.pop("step")
    if name not in _STEPS:
        raise errors.ProtocolError(f"there is no alteration {name!r}{errors.did_you_mean(str(name), _STEPS)}")
    for field, value in given.items():
        if value is not None and field in _STEP_FIELDS:
            given[field] = _STEP_FIELDS[field][1](value)
    return _STEPS[name](**given)


# ---- scans ----------------------------------------------------------------------------------------------------------


def spec_to_plain(spec: ScanSpec) -> Plain:
    """Returns the spec of a scan as plain data, without fields that have their default."""
    plain: Plain = {"columns": list(spec.columns)}
    if spec.predicates:
        plain["predicates"] = [predicate_to_plain(predicate) for predicate in spec.predicates]
    if spec.changes is not None:
        plain["changes"] = [spec.changes.since, spec.changes.history]
    for name in _SPEC_FIELDS:
        value = getattr(spec, name)
        if value != _SPEC_DEFAULTS[name]:
            plain[name] = value
    return plain


@_reads("scan")
def spec_from_plain(data: Plain) -> ScanSpec:
    """Returns the scan of `spec_to_plain`."""
    changes = data.get("changes")
    return ScanSpec(
        columns=tuple(data["columns"]),
        predicates=tuple(predicate_from_plain(predicate) for predicate in data.get("predicates", ())),
        changes=None if changes is None else ChangeRange(Timestamp(changes[0]), changes[1]),
        **{name: data[name] for name in _SPEC_FIELDS if name in data},
    )


_SPEC_DEFAULTS = {field.name: field.default for field in fields(ScanSpec)}
_SPEC_FIELDS = [name for name in _SPEC_DEFAULTS if name not in ("columns", "predicates", "changes")]
"""Fields that are sent unchanged."""


def predicate_to_plain(predicate: ColumnPredicate) -> Plain:
    """Returns a predicate as plain data; its constants are physical values, bits and words are sent as bytes."""
    plain: Plain = {"is": type(predicate).__name__, "column": predicate.column}
    match predicate:
        case Range():
            plain["bounds"] = [value_to_plain(predicate.lower), value_to_plain(predicate.upper)]
            plain["inclusive"] = [predicate.lower_inclusive, predicate.upper_inclusive]
        case InList():
            plain["values"] = [value_to_plain(value) for value in predicate.values]
        case IsNull():
            plain["negated"] = predicate.negated
        case AnyOf():
            plain["members"] = [predicate_to_plain(member) for member in predicate.members]
        case BitmapFilter():
            plain["base"] = value_to_plain(int(predicate.base))
            plain["count"] = len(predicate.bits)
            if _is_sparse(predicate):
                plain["places"] = np.flatnonzero(predicate.bits).astype("<u4").tobytes()
            else:
                plain["bits"] = np.packbits(np.asarray(predicate.bits, np.bool_)).tobytes()
        case BloomFilter():
            plain["words"] = np.ascontiguousarray(predicate.words, "<u8").tobytes()
    return plain


@_reads("predicate")
def predicate_from_plain(data: Plain) -> ColumnPredicate:
    """Returns the predicate of `predicate_to_plain`."""
    kind, column = data["is"], data["column"]
    match kind:
        case "Range":
            lower, upper = (value_from_plain(bound) for bound in data["bounds"])
            return Range(column, lower, upper, *data["inclusive"])
        case "InList":
            return InList(column, tuple(value_from_plain(value) for value in data["values"]))
        case "IsNull":
            return IsNull(column, data["negated"])
        case "AnyOf":
            return AnyOf(column, tuple(_member(member) for member in data["members"]))
        case "BitmapFilter":
            bits = _bits(data["bits"], data["count"]) if "bits" in data else _set_bits(data["places"], data["count"])
            return BitmapFilter(column, value_from_plain(data["base"]), bits)
        case "BloomFilter":
            return BloomFilter(column, np.frombuffer(data["words"], np.dtype("<u8")))
    raise errors.ProtocolError(f"there is no predicate {kind!r}")


def _member(data: Plain) -> Range | InList | IsNull:
    member = predicate_from_plain(data)
    if not isinstance(member, Range | InList | IsNull):
        raise ValueError(f"a {type(member).__name__} cannot be one of several")
    return member


def _bits(data: bytes, count: int) -> Any:
    packed = np.frombuffer(data, np.uint8)
    if not 0 <= len(packed) * 8 - count < 8:
        raise ValueError(f"{len(packed)} bytes do not hold {count} bits")
    return np.unpackbits(packed, count=count).view(np.bool_)


MOST_PLACES = 1 << 26
"""Most bits of a bitmap that is sent as places: a server allocates them for a few bytes."""


def _set_bits(places: bytes, count: int) -> Any:
    set_ = np.frombuffer(places, np.dtype("<u4"))
    if not 0 <= count <= MOST_PLACES or (len(set_) and int(set_.max()) >= count):
        raise ValueError(f"not all of {len(set_)} places are among {count} bits")
    bits = np.zeros(count, np.bool_)
    bits[set_] = True
    return bits


def _is_sparse(predicate: BitmapFilter) -> bool:
    """True if a bitmap is sent as the places of its set bits, as for a few hundred keys of a large table."""
    bits = predicate.bits
    return len(bits) <= MOST_PLACES and 64 * int(np.count_nonzero(bits)) < len(bits)


def filter_bytes(predicate: ColumnPredicate) -> int:
    """Returns the bytes of a runtime filter in transit; 0 for other predicates."""
    if isinstance(predicate, BloomFilter):
        return int(predicate.words.nbytes)
    if not isinstance(predicate, BitmapFilter):
        return 0
    return 4 * int(np.count_nonzero(predicate.bits)) if _is_sparse(predicate) else len(predicate.bits) // 8


# ---- statistics -----------------------------------------------------------------------------------------------------


def statistics_to_plain(statistics: TableStatistics) -> Plain:
    """Returns estimates for the planner as plain data."""
    return {
        "row_count": int(statistics.row_count),
        "columns": {
            name: [
                value_to_plain(column.low),
                value_to_plain(column.high),
                int(column.null_count),
                None if column.distinct_count is None else float(column.distinct_count),
            ]
            for name, column in statistics.columns.items()
        },
    }


@_reads("statistics")
def statistics_from_plain(data: Plain) -> TableStatistics:
    """Returns the estimates of `statistics_to_plain`."""
    columns = {
        name: ColumnStatistics(value_from_plain(low), value_from_plain(high), null_count, distinct_count)
        for name, (low, high, null_count, distinct_count) in data["columns"].items()
    }
    return TableStatistics(data["row_count"], columns)


def sketch_to_plain(sketch: ColumnSketch) -> Plain:
    """Returns a summary of some rows of a column as plain data."""
    data = sketch.to_dict()
    return {**data, "low": value_to_plain(sketch.low), "high": value_to_plain(sketch.high)}


@_reads("sketch")
def sketch_from_plain(data: Plain) -> ColumnSketch:
    """Returns the summary of `sketch_to_plain`."""
    low, high = value_from_plain(data["low"]), value_from_plain(data["high"])
    return ColumnSketch.from_dict({**data, "low": low, "high": high})


def storage_to_plain(storage: TableStorage) -> Plain:
    """Returns the storage statistics of a table as plain data."""
    columns = {
        name: [int(column.bytes), list(column.encodings), None if column.width is None else float(column.width)]
        for name, column in storage.columns.items()
    }
    return {"tablets": storage.tablets, "rowsets": storage.rowsets, "bytes": int(storage.bytes), "columns": columns}


@_reads("storage")
def storage_from_plain(data: Plain) -> TableStorage:
    """Returns the statistics of `storage_to_plain`."""
    columns = {
        name: ColumnStorage(size, tuple(encodings), width) for name, (size, encodings, width) in data["columns"].items()
    }
    return TableStorage(data["tablets"], data["rowsets"], data["bytes"], columns)


def _map_to_plain(data: Mapping[str, Any]) -> Plain:
    return {name: _to_plain(value) for name, value in data.items()}


def _to_plain(value: Any) -> Any:
    if isinstance(value, dict):
        return _map_to_plain(value)
    if type(value) in (list, tuple):  # not an `Interval`
        return [_to_plain(item) for item in value]
    return value_to_plain(value)


def _map_from_plain(data: Mapping[str, Any]) -> Plain:
    return {name: _from_plain(value) for name, value in data.items()}


def _from_plain(value: Any) -> Any:
    if isinstance(value, dict):
        return _map_from_plain(value)
    if isinstance(value, list | tuple):
        return [_from_plain(item) for item in value]
    return value_from_plain(value)

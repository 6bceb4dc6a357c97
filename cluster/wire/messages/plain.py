"""Tables, alterations, scans and statistics as plain maps for msgpack, and back.

    table_to_plain        Table                 definition_to_plain   TableDefinition
    entry_to_plain        CatalogEntry          view_to_plain         View
    step_to_plain         AlterStep             spec_to_plain         ScanSpec
    statistics_to_plain   TableStatistics       storage_to_plain      TableStorage
    sketch_to_plain       ColumnSketch          namespace_to_plain    Namespace

Each has its `..._from_plain`. They are total: every value of these classes is restored unchanged, including integers
beyond 64 bits (`model.codec.values`) and predicates (`model.codec.predicates`). A malformed map is a `ProtocolError`; a
map that storage refuses (two columns of one name) raises storage's error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any

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
    SetOwner,
    SetQuota,
    SetReplicas,
    SetStorage,
)
from ....model.codec import tables
from ....model.codec.predicates import predicate_from_plain, predicate_to_plain
from ....model.codec.values import map_from_plain, map_to_plain, reads, value_from_plain, value_to_plain
from ....model.namespaces import DEFAULT_NAMESPACE, Namespace
from ....model.predicates import ColumnPredicate
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


# ---- tables ---------------------------------------------------------------------------------------------------------


def table_to_plain(table: Table) -> Plain:
    """Returns a table as plain data."""
    return map_to_plain(tables.table_to_dict(table))


@reads("table")
def table_from_plain(data: Plain) -> Table:
    """Returns the table of `table_to_plain` or `entry_to_plain`."""
    return tables.table_from_dict(map_from_plain(data))


def entry_to_plain(entry: CatalogEntry) -> Plain:
    """Returns a table with the ids of its tablets as plain data."""
    return map_to_plain(entry_to_dict(entry))


@reads("table with tablets")
def entry_from_plain(data: Plain) -> CatalogEntry:
    """Returns the table with tablets of `entry_to_plain`."""
    return entry_from_dict(map_from_plain(data))


def definition_to_plain(definition: TableDefinition) -> Plain:
    """Returns the definition of CREATE TABLE as plain data."""
    return map_to_plain(tables.definition_to_dict(definition))


@reads("table definition")
def definition_from_plain(data: Plain) -> TableDefinition:
    """Returns the definition of `definition_to_plain`."""
    return tables.definition_from_dict(map_from_plain(data))


def view_to_plain(view: View) -> Plain:
    """Returns a view as plain data."""
    plain: Plain = {"name": view.name, "text": view.text, "columns": list(view.columns)}
    if view.owner:
        plain["owner"] = view.owner
    return plain if view.namespace == DEFAULT_NAMESPACE else {**plain, "namespace": view.namespace}


@reads("view")
def view_from_plain(data: Plain) -> View:
    """Returns the view of `view_to_plain`."""
    namespace = data.get("namespace", DEFAULT_NAMESPACE)
    return View(data["name"], data["text"], tuple(data["columns"]), data.get("owner", ""), namespace)


def namespace_to_plain(namespace: Namespace) -> Plain:
    """Returns a namespace as plain data."""
    return tables.namespace_to_dict(namespace)


@reads("schema")
def namespace_from_plain(data: Plain) -> Namespace:
    """Returns the namespace of `namespace_to_plain`."""
    return tables.namespace_from_dict(data)


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
        SetOwner,
        SetReplicas,
        SetQuota,
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
    return map_to_plain(plain)


@reads("alteration")
def step_from_plain(data: Plain) -> AlterStep:
    """Returns the step of `step_to_plain`."""
    given = map_from_plain(data)
    name = given.pop("step")
    if name not in _STEPS:
        raise errors.ProtocolError(f"there is no alteration {name!r}{errors.did_you_mean(str(name), _STEPS)}")
    for field, value in given.items():
        if value is not None and field in _STEP_FIELDS:
            given[field] = _STEP_FIELDS[field][1](value)
    return _STEPS[name](**given)


# ---- scans ----------------------------------------------------------------------------------------------------------


def predicates_to_plain(predicates: Iterable[ColumnPredicate]) -> Plain:
    """Returns predicates as plain data."""
    return {"all": [predicate_to_plain(predicate) for predicate in predicates]}


@reads("predicates")
def predicates_from_plain(data: Plain) -> tuple[ColumnPredicate, ...]:
    """Returns the predicates of `predicates_to_plain`."""
    return tuple(predicate_from_plain(predicate) for predicate in data["all"])


def spec_to_plain(spec: ScanSpec) -> Plain:
    """Returns the spec of a scan as plain data, without fields that have their default, and without `split_evenly` and
    `one_of`: a server divides the work itself, and the client has left out tablets already.

    The columns of a descending scan have another name, so that a server that does not know these scans refuses one,
    instead of returning the first rows of the other end.
    """
    plain: Plain = {_DESCENDING if spec.descending else "columns": list(spec.columns)}
    if spec.predicates:
        plain["predicates"] = [predicate_to_plain(predicate) for predicate in spec.predicates]
    if spec.changes is not None:
        plain["changes"] = [spec.changes.since, spec.changes.history]
    for name in _SPEC_FIELDS:
        value = getattr(spec, name)
        if value != _SPEC_DEFAULTS[name]:
            plain[name] = value
    return plain


@reads("scan")
def spec_from_plain(data: Plain) -> ScanSpec:
    """Returns the scan of `spec_to_plain`."""
    changes = data.get("changes")
    descending = _DESCENDING in data
    return ScanSpec(
        columns=tuple(data[_DESCENDING if descending else "columns"]),
        descending=descending,
        predicates=tuple(predicate_from_plain(predicate) for predicate in data.get("predicates", ())),
        changes=None if changes is None else ChangeRange(Timestamp(changes[0]), changes[1]),
        **{name: data[name] for name in _SPEC_FIELDS if name in data},
    )


_DESCENDING = "columns_descending"
_SPEC_DEFAULTS = {field.name: field.default for field in fields(ScanSpec)}
_SPEC_FIELDS = [
    name
    for name in _SPEC_DEFAULTS
    if name not in ("columns", "predicates", "changes", "descending", "split_evenly", "one_of")
]
"""Fields that are sent unchanged."""


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


@reads("statistics")
def statistics_from_plain(data: Plain) -> TableStatistics:
    """Returns the estimates of `statistics_to_plain`."""
    columns = {
        name: ColumnStatistics(value_from_plain(low), value_from_plain(high), null_count, distinct_count)
        for name, (low, high, null_count, distinct_count) in data["columns"].items()
    }
    return TableStatistics(data["row_count"], columns)


def sketch_to_plain(sketch: ColumnSketch) -> Plain:
    """Returns a summary of some rows of a column as plain data."""
    return map_to_plain(sketch.to_dict())


@reads("sketch")
def sketch_from_plain(data: Plain) -> ColumnSketch:
    """Returns the summary of `sketch_to_plain`."""
    return ColumnSketch.from_dict(map_from_plain(data))


def storage_to_plain(storage: TableStorage) -> Plain:
    """Returns the storage statistics of a table as plain data."""
    columns = {
        name: [int(column.bytes), list(column.encodings), None if column.width is None else float(column.width)]
        for name, column in storage.columns.items()
    }
    return {"tablets": storage.tablets, "rowsets": storage.rowsets, "bytes": int(storage.bytes), "columns": columns}


@reads("storage")
def storage_from_plain(data: Plain) -> TableStorage:
    """Returns the statistics of `storage_to_plain`."""
    columns = {
        name: ColumnStorage(size, tuple(encodings), width) for name, (size, encodings, width) in data["columns"].items()
    }
    return TableStorage(data["tablets"], data["rowsets"], data["bytes"], columns)

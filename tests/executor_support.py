"""A store in memory for the executor's tests: Arrow tables served as encoded, lazy batches, in several tablets.

It counts which columns were read, so that tests can prove that work did not happen.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from nyala.errors import AlreadyPresent, DuplicateTable, UnknownTable
from nyala.model.bloom_predicate import may_contain
from nyala.model.namespaces import DEFAULT_NAMESPACE, Namespace
from nyala.model.predicates import AnyOf, BitmapFilter, BloomFilter, InList, IsNull, Range
from nyala.model.schema import (
    ColumnSchema,
    HashRule,
    PartitionSchema,
    Schema,
    Table,
    TableDefinition,
    View,
    assign_column_ids,
)
from nyala.model.store import (
    ColumnStatistics,
    RowError,
    ScanCounters,
    ScanSpec,
    ScanToken,
    TableStatistics,
    Timestamp,
    WriteBatch,
    WriteResult,
)
from nyala.model.types import DataType, type_from_arrow
from nyala.model.vectors.vector import Batch, Dict, Flat, LazyColumn, Narrow, Vector, vector_from_arrow


def encoded(type_: DataType, array: pa.Array | pa.ChunkedArray) -> Vector:
    """The most encoded form that the values allow, as a column file would choose it."""
    vector = vector_from_arrow(type_, array)
    if type_.is_text:
        plain = vector.to_arrow()
        if len(plain) == 0 or pc.count_distinct(plain).as_py() * 2 > len(plain):
            return vector
        dictionary = pc.unique(plain).drop_null()
        dictionary = dictionary.take(pc.sort_indices(dictionary))
        codes = pc.index_in(plain, value_set=dictionary).fill_null(0).to_numpy(zero_copy_only=False)
        dtype = np.uint8 if len(dictionary) <= 256 else np.uint16 if len(dictionary) <= 65536 else np.uint32
        return Dict(type_, codes.astype(dtype), dictionary, vector.validity, ordered=True)
    if isinstance(vector, Flat) and type_.is_integer_like:
        values = vector.values().astype(np.int64)
        present = values if vector.validity is None else values[vector.validity]
        low, high = (int(present.min()), int(present.max())) if len(present) else (0, 0)
        if high - low < 2**32 and not (type_.is_decimal and type_.precision > 18):
            codes = np.where(True if vector.validity is None else vector.validity, values - low, 0)
            dtype = next(d for d in (np.uint8, np.uint16, np.uint32) if high - low <= np.iinfo(d).max)
            return Narrow(type_, codes.astype(dtype), low, vector.validity, high - low)
    return vector


def open_files(folder: Path) -> int:
    """Number of files in `folder` that this process has open; its other open files do not count."""
    gc.collect()
    return sum(os.path.realpath(fd).startswith(str(folder)) for fd in Path("/proc/self/fd").iterdir())


class MemoryStore:
    """Tables in memory; `batch_rows` and `tablets` decide how finely they are cut."""

    runs_fragments = False

    def __init__(self, batch_rows: int = 1000, tablets: int = 3):
        self._tables: dict[str, Table] = {}
        self._parts: dict[str, list[list[Vector]]] = {}
        self._batch_rows = batch_rows
        self._tablets = tablets
        self.columns_read: list[str] = []
        self.specs: list[ScanSpec] = []
        self.catalog_version = 0

    # ---- filling ------------------------------------------------------------------------------------------------

    def add(
        self,
        name: str,
        data: pa.Table,
        key: Sequence[str] = (),
        hashed: str | None = None,
        plain: bool = False,
        nullable: Sequence[str] = (),
    ) -> Table:
        """A table of Arrow data; `hashed` distributes its rows by that column; `plain` leaves out encodings.

        Columns are NOT NULL unless they hold a NULL or are `nullable`.
        """
        key = list(key) or [data.schema.names[0]]
        data = data.select([*key, *(n for n in data.schema.names if n not in key)])
        columns = []
        for field in data.schema:
            type_ = type_from_arrow(field.type)
            may_be_null = field.name in nullable or (field.name not in key and data[field.name].null_count > 0)
            columns.append(ColumnSchema(field.name, type_, may_be_null))
        partitions = PartitionSchema((HashRule((hashed,), self._tablets),) if hashed else ())
        schema = Schema(assign_column_ids(columns), len(key))
        table = Table(f"id-{name}", name, schema, partitions)
        self._tables[name] = table
        self._parts[name] = []
        for tablet in range(self._tablets if hashed else 1):
            part = data
            if hashed:
                bucket = np.asarray(data[hashed].to_numpy()) * 7 % self._tablets
                part = data.filter(pa.array(bucket == tablet))
            make = vector_from_arrow if plain else encoded
            self._parts[name].append([make(c.type, part[c.name]) for c in schema.columns])
        return table

    # ---- the seam -----------------------------------------------------------------------------------------------

    def tables(self) -> list[Table]:
        return [self._tables[name] for name in sorted(self._tables)]

    def table(self, name: str) -> Table:
        if name not in self._tables:
            raise UnknownTable(f"table {name} does not exist")
        return self._tables[name]

    def views(self) -> list[View]:
        return []

    def view(self, name: str) -> View | None:
        return None

    def namespaces(self) -> list[Namespace]:
        return [Namespace(DEFAULT_NAMESPACE)]

    def create_table(self, definition: TableDefinition) -> Table:
        if definition.name in self._tables:
            raise DuplicateTable(f"there is a table {definition.name} already")
        columns = assign_column_ids(definition.schema.columns)
        schema = Schema(columns, definition.schema.key_columns)
        self._tables[definition.name] = Table(f"id-{definition.name}", definition.name, schema, definition.partitions)
        self._parts[definition.name] = [[vector_from_arrow(c.type, pa.array([], c.type.arrow)) for c in columns]]
        self.catalog_version += 1
        return self._tables[definition.name]

    def drop_table(self, name: str, views: Sequence[str] = ()) -> None:
        self.table(name)
        del self._tables[name], self._parts[name]

    def statistics(self, table: Table) -> TableStatistics:
        parts = self._parts[table.name]
        rows = sum(len(part[0]) for part in parts)
        columns = {}
        for i, column in enumerate(table.schema.columns):
            bounds = [part[i].bounds() for part in parts if len(part[i])]
            whole = pa.chunked_array([part[i].to_arrow() for part in parts], column.type.arrow)
            distinct = float(pc.count_distinct(whole).as_py()) if not pa.types.is_decimal(whole.type) else None
            known = [b for b in bounds if b is not None]
            unknown = 0 if column.type.is_integer_like else None
            low = min((b[0] for b in known), default=unknown)
            high = max((b[1] for b in known), default=unknown)
            columns[column.name] = ColumnStatistics(low, high, whole.null_count, distinct)
        return TableStatistics(rows, columns)

    def tablet_count(self, table: Table) -> int:
        return len(self._parts[table.name])

    def scan_tokens(self, table: Table, spec: ScanSpec) -> list[ScanToken]:
        self.specs.append(spec)
        tokens = []
        for number, part in enumerate(self._parts[table.name]):
            step = max(self._batch_rows, min(spec.split_rows or len(part[0]), 4 * self._batch_rows))
            step = max(1, len(part[0])) if spec.ordered else step
            for start in range(0, len(part[0]), step):
                stop = min(start + step, len(part[0]))
                tokens.append(ScanToken(table, f"tablet-{number}", spec, (number, start, stop), stop - start))
        return tokens

    def scan(self, token: ScanToken, counters: ScanCounters | None = None) -> Iterator[Batch]:
        number, start, stop = token.part
        columns = self._parts[token.table.name][number]
        schema = token.table.schema
        order = np.arange(start, stop)
        if token.spec.ordered:
            keys = pa.table({c.name: v.to_arrow() for c, v in zip(schema.key, columns, strict=False)})
            direction = "descending" if token.spec.descending else "ascending"
            order = pc.sort_indices(keys, [(name, direction) for name in keys.schema.names]).to_numpy()
        left = len(order) if token.spec.limit is None else token.spec.limit
        for first in range(0, len(order), self._batch_rows):
            if not left:
                return
            rows = order[first : first + self._batch_rows]
            considered = len(rows)
            for predicate in token.spec.predicates:
                vector = columns[schema.position(predicate.column)].take(rows)
                rows = rows[satisfies(vector, predicate)]
            rows = rows[:left]
            left -= len(rows)
            if counters is not None:
                counters.rows_considered += considered
                counters.rows_returned += len(rows)
            slots = [self._lazy(token.table, columns, name, rows) for name in token.spec.columns]
            yield Batch(slots, len(rows))

    def _lazy(self, table: Table, columns: list[Vector], name: str, rows: Any) -> LazyColumn:
        vector = columns[table.schema.position(name)]

        def load(chosen: Any) -> Vector:
            self.columns_read.append(f"{table.name}.{name}")
            return vector.take(rows if chosen is None else rows[chosen])

        return LazyColumn(load)

    def write(self, table: Table, batch: WriteBatch) -> WriteResult:
        columns = table.schema.columns
        part = self._parts[table.name][0]
        rows = batch.rows
        known = set(zip(*(part[i].to_arrow().to_pylist() for i in range(table.schema.key_columns))))
        errors, kept = [], []
        for number, key in enumerate(zip(*(rows.column(c.name).to_pylist() for c in table.schema.key))):
            if key in known:
                errors.append(RowError(number, AlreadyPresent(f"key {key} is in table {table.name} already")))
            else:
                known.add(key)
                kept.append(number)
        if errors and batch.all_or_none:
            return WriteResult(0, tuple(errors))
        rows = rows.take(pa.array(kept, pa.int64()))
        for i, column in enumerate(columns):
            if column.name in rows.schema.names:
                more = rows.column(column.name)
            else:
                more = pa.repeat(pa.scalar(column.type.to_python(column.default), column.type.arrow), len(kept))
            part[i] = vector_from_arrow(column.type, pa.concat_arrays([part[i].to_arrow(), more]))
        return WriteResult(len(kept), tuple(errors))

    def bulk_loader(self, table: Table) -> MemoryLoader:
        return MemoryLoader(self, table)

    def now(self) -> Timestamp:
        return Timestamp(0)

    def close(self) -> None:
        pass


class MemoryLoader:
    """Collects rows and adds them at `finish`."""

    def __init__(self, store: MemoryStore, table: Table):
        self._store = store
        self._table = table
        self._rows: list[pa.RecordBatch] = []

    def append(self, rows: pa.RecordBatch | pa.Table) -> None:
        self._rows.extend(rows.to_batches() if isinstance(rows, pa.Table) else [rows])

    def finish(self) -> int:
        total = 0
        for rows in self._rows:
            result = self._store.write(self._table, WriteBatch(rows))
            if result.errors:
                raise result.errors[0].error
            total += result.applied
        return total

    def __enter__(self) -> MemoryLoader:
        return self

    def __exit__(self, *exc: object) -> None:
        self._rows = []


def satisfies(vector: Vector, predicate: Any) -> Any:
    """Which rows satisfy a scan predicate."""
    present = np.ones(len(vector), np.bool_) if vector.validity is None else vector.validity
    if isinstance(predicate, IsNull):
        return present if predicate.negated else ~present
    if isinstance(predicate, AnyOf):
        return np.logical_or.reduce([satisfies(vector, member) for member in predicate.members])
    if isinstance(predicate, BloomFilter):
        return may_contain(predicate.words, vector)
    if isinstance(vector, Dict):
        table = _holds(pa_objects(vector.dictionary), predicate)
        return present & (table[vector.codes] if len(table) else np.zeros(len(vector), np.bool_))
    if vector.type.is_text:
        return present & _holds(pa_objects(vector.to_arrow()), predicate)
    return present & _holds(vector.values(), predicate)


def pa_objects(array: pa.Array) -> Any:
    result = np.empty(len(array), object)
    result[:] = ["" if v is None else v for v in array.to_pylist()]
    return result


def _holds(values: Any, predicate: Any) -> Any:
    if isinstance(predicate, InList):
        return np.isin(values, list(predicate.values)) if len(values) else np.zeros(0, np.bool_)
    if isinstance(predicate, BitmapFilter):
        places = values.astype(np.int64) - predicate.base
        inside = (places >= 0) & (places < len(predicate.bits))
        return inside & predicate.bits[np.where(inside, places, 0)]
    assert isinstance(predicate, Range)
    result = np.ones(len(values), np.bool_)
    if predicate.lower is not None:
        result &= (values >= predicate.lower if predicate.lower_inclusive else values > predicate.lower).astype(bool)
    if predicate.upper is not None:
        result &= (values <= predicate.upper if predicate.upper_inclusive else values < predicate.upper).astype(bool)
    return result

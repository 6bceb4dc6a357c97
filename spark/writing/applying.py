"""Applies a job's rows to its table, by its operation.

    rows of the record, of the staging table ─► chunks ─► by tablet, by key ─► writes, several tablets concurrently

First the rows are checked; if some are rejected, `IntegrityError` names keys, and nothing has changed. Then the rows
are applied by an op that may be repeated. An insert that has not been started before does both at once, by the store's
bulk loader. A publication that is resumed after an interruption reads the table as of its start (`JobRecord.moment`):
later changes are its own.

The rows of one key stay in their order. Between two writes readers see only some of the rows, unless the store makes a
bulk load visible at once, as an embedded one does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ...driver.connection import Connection
from ...errors import AlreadyPresent, IntegrityError, NotFound, NotSupportedError
from ...model.keys.keys import Keys
from ...model.partitions.partition import Partitioner
from ...model.schema import Table
from ...model.store import Op, RowError, WriteBatch
from ...model.vectors.vector import Array
from ...sql.binding.tables.show_create import quoted_name, table_text
from ...storage.writing.incoming_rows import conform
from .arrow_streams import batches_of
from .jobs import JobRecord
from .lease import Lease
from .operations import Operation
from .staged_keys import StagedKeys
from .staging import StagingTable
from .tasks import joined

CHUNK_ROWS: Final = 1 << 18
"""Number of rows that are sorted at a time."""
CHUNK_BYTES: Final = 128 << 20
WRITERS: Final = 4
SHOWN_KEYS: Final = 5


def apply(connection: Connection, lease: Lease, batch_rows: int, resumed: bool) -> None:
    """Applies all rows of the lease's job to its table; `Lease.add` counts the changes.

    Parameters
    ----------
    resumed : bool
        True if it may have been started before.

    Raises
    ------
    IntegrityError
        If rows are rejected (`AlreadyPresent`, `NotFound`); none is applied.
    NotSupportedError
        If the table's keys are not unique, and the publication was started before.
    OperationalError
        If the lease is lost, or the store cannot be reached: it is to be resumed.
    """
    _Publication(connection, lease, batch_rows).run(resumed)


class _Publication:
    def __init__(self, connection: Connection, lease: Lease, batch_rows: int):
        self._connection = connection
        self._store = connection.store
        self._lease = lease
        self._record: JobRecord = lease.record
        self._table: Table = self._store.table(self._record.target)
        self._key = [column.name for column in self._table.schema.key if not column.auto_increment]
        self._partitioner = Partitioner(self._table.schema, self._table.partitions)
        self._batch_rows = batch_rows
        self._staging = StagingTable(connection, self._record.staging)
        key = [self._table.schema.column(name) for name in self._key]
        self._keys = StagedKeys(connection, self._record.staging, key, self._table.replicas)
        self._few = batches_of(self._record.few)

    def run(self, resumed: bool) -> None:
        operation = self._record.operation
        if resumed and self._table.schema.auto_increment is not None:
            raise NotSupportedError(
                f"job {self._record.job} was interrupted while its rows went into table {self._table.name}, which has "
                "a NON UNIQUE PRIMARY KEY: it is not known which of them are there already"
            )
        if operation.needs_absent and not resumed:
            self._insert()
            return
        if operation.needs_absent or operation.needs_present:
            if self._is_small and not resumed:
                self._apply_few(Op.UPDATE if operation is Operation.UPDATE else Op.DELETE)
                return
            self._check()
        self._apply(self._chunks())
        if operation is Operation.OVERWRITE:
            self._delete_others()

    # ---- the rows ------------------------------------------------------------------------------------------------

    @property
    def _is_small(self) -> bool:
        """True if all rows are in the record itself."""
        return not self._record.attempts

    def _batches(self) -> Iterator[pa.RecordBatch]:
        yield from self._few
        yield from self._staging.rows(self._record.attempts)

    def _key_batches(self) -> Iterator[pa.RecordBatch]:
        """The keys of the rows, defaults included."""
        for batch in self._batches():
            yield conform(self._table, batch).select(self._key)

    def _chunks(self) -> Iterator[pa.RecordBatch]:
        """The rows in chunks; those of an overwritten table with all columns."""
        for chunk in joined(self._batches(), CHUNK_ROWS, CHUNK_BYTES):
            is_whole = self._record.operation is Operation.OVERWRITE
            yield conform(self._table, chunk) if is_whole else chunk

    # ---- inserting -----------------------------------------------------------------------------------------------

    def _insert(self) -> None:
        if self._is_small and self._table.schema.auto_increment is None:
            self._apply_few(Op.INSERT)
            return
        with self._store.bulk_loader(self._table) as loader:
            for batch in self._batches():
                self._lease.check()
                loader.append(batch)
            self._lease.check()
            self._lease.add(loader.finish())

    def _apply_few(self, op: Op) -> None:
        """Applies the few rows of the record in one write, all or none."""
        if not self._few:
            return
        self._lease.check()
        rows = pa.concat_batches(self._few)
        if op is Op.DELETE:
            rows = self._once_each(rows)
        result = self._store.write(self._table, WriteBatch(rows, op, all_or_none=True))
        if result.errors and result.applied and op is not Op.INSERT:
            # All keys existed, and then some were deleted concurrently. The others are changed; so are the remaining
            # rows.
            self._apply(iter([rows]))
            return
        if result.errors and result.applied:
            self._take_back(rows, result.errors)
        if result.errors:
            raise self._refusal(result.errors[0].error, rows, result.errors)
        self._lease.add(result.applied)

    def _once_each(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The first row of each key: a key that the job itself deleted is not one that never existed."""
        repeated = Keys.from_rows(self._table.schema, conform(self._table, rows)).duplicates()
        return rows.take(pa.array(np.delete(np.arange(rows.num_rows), repeated))) if len(repeated) else rows

    def _take_back(self, rows: pa.RecordBatch, errors: Sequence[RowError]) -> None:
        """Deletes the rows that a write inserted into the tablets without a rejected row: each tablet applies all or
        none."""
        places = self._partitioner.route(conform(self._table, rows))
        refused = np.isin(places, places[[error.row for error in errors]])
        keys = rows.select(self._key).take(pa.array(np.flatnonzero(~refused)))
        self._store.write(self._table, WriteBatch(keys, Op.DELETE_IGNORE))

    def _refusal(self, first: IntegrityError, rows: pa.RecordBatch, errors: Sequence[RowError]) -> IntegrityError:
        shown = rows.select(self._key).take(pa.array([error.row for error in errors[:SHOWN_KEYS]])).to_pylist()
        return self._refused(type(first), shown, len(errors), str(first))

    def _refused(
        self, kind: type[IntegrityError], keys: Sequence[dict[str, Any]], count: int | None, why: str
    ) -> IntegrityError:
        listed = "; ".join(", ".join(f"{name} = {value!r}" for name, value in key.items()) for key in keys)
        more = ", ..." if count is None or count > len(keys) else ""
        number = "rows" if count is None else f"{count} of {self._record.rows} rows"
        return kind(
            f"{number} of job {self._record.job} ({self._record.operation.value}) are rejected, and nothing is "
            f"written: {why}; rejected: {listed}{more}"
        )

    # ---- what would be refused -----------------------------------------------------------------------------------

    def _check(self) -> None:
        """Raises if rows are rejected, given the table's state when the publication began."""
        if not self._keys.fill(self._key_batches()):
            return
        key, staged = ", ".join(map(quoted_name, self._key)), self._keys.query
        if self._record.operation.needs_absent:
            self._check_found(
                f"SELECT {key} FROM {staged} GROUP BY {key} HAVING count(*) > 1",
                AlreadyPresent,
                f"the job has keys of table {self._table.name} twice",
            )
        matches = " AND ".join(f"t.{name} = s.{name}" for name in map(quoted_name, self._key))
        are_there = self._record.operation.needs_absent
        self._check_found(
            f"SELECT {key} FROM {staged} s WHERE {'' if are_there else 'NOT '}EXISTS "
            f"(SELECT 1 FROM {self._target_then()} t WHERE {matches})",
            AlreadyPresent if are_there else NotFound,
            f"table {self._table.name} {'has their keys already' if are_there else 'has no rows with their keys'}",
        )

    def _check_found(self, query: str, kind: type[IntegrityError], why: str) -> None:
        names = [f"k{place}" for place in range(len(self._key))]
        limited = f"SELECT * FROM ({query}) AS refused ({', '.join(names)}) LIMIT {SHOWN_KEYS + 1}"
        rejected = self._connection.execute(limited).fetchall()
        if rejected:
            shown = [dict(zip(self._key, row)) for row in rejected[:SHOWN_KEYS]]
            raise self._refused(kind, shown, None if len(rejected) > SHOWN_KEYS else len(rejected), why)

    def _target_then(self) -> str:
        return f"{table_text(self._table)} FOR SYSTEM_TIME AS OF {self._record.moment}"

    # ---- applying ------------------------------------------------------------------------------------------------

    def _apply(self, chunks: Iterator[pa.RecordBatch], op: Op | None = None) -> None:
        """Writes the chunks in order; while one is written, the next is read and sorted."""
        op = op or self._record.operation.repeated
        with ThreadPoolExecutor(WRITERS, thread_name_prefix="nyala-spark-publish") as pool:
            running: list[Future[None]] = []
            try:
                for chunk in chunks:
                    parts = self._by_tablet(chunk)
                    _finish(running)
                    running = [pool.submit(self._write, part, op) for part in parts]
                _finish(running)
            finally:
                wait(running)

    def _by_tablet(self, chunk: pa.RecordBatch) -> list[pa.RecordBatch]:
        """The rows of each tablet, by key; those of one key in their order."""
        whole = conform(self._table, chunk)
        order: Array = Keys.from_rows(self._table.schema, whole).order()
        places = self._partitioner.route(whole).take(order)
        by_place = np.argsort(places.astype(np.int32), kind="stable")
        rows = chunk.take(pa.array(order.take(by_place)))
        ends = np.flatnonzero(np.diff(places.take(by_place))) + 1
        starts = [0, *ends.tolist()]
        return [rows.slice(start, stop - start) for start, stop in zip(starts, [*starts[1:], rows.num_rows])]

    def _write(self, rows: pa.RecordBatch, op: Op) -> None:
        for start in range(0, rows.num_rows, self._batch_rows):
            self._lease.check()
            result = self._store.write(self._table, self._batch(rows.slice(start, self._batch_rows), op))
            self._lease.add(result.applied)
            if result.errors:
                raise result.errors[0].error

    def _batch(self, rows: pa.RecordBatch, op: Op) -> WriteBatch:
        is_replaced = self._record.operation is Operation.OVERWRITE and op is Op.UPSERT
        if not is_replaced or not any(column.immutable for column in self._table.schema.columns):
            return WriteBatch(rows, op)
        # Rows with columns that may not be updated are deleted and inserted again.
        doubled = rows.take(pa.array(np.repeat(np.arange(rows.num_rows), 2)))
        return WriteBatch(doubled, np.tile(np.array([Op.DELETE_IGNORE, Op.INSERT], np.uint8), rows.num_rows))

    # ---- overwriting ---------------------------------------------------------------------------------------------

    def _delete_others(self) -> None:
        """Deletes the rows that existed when the publication began and are not the job's."""
        key = ", ".join(map(quoted_name, self._key))
        query = f"SELECT {key} FROM {self._target_then()} t"
        if self._keys.fill(self._key_batches()):
            matches = " AND ".join(f"t.{name} = s.{name}" for name in map(quoted_name, self._key))
            query += f" WHERE NOT EXISTS (SELECT 1 FROM {self._keys.query} s WHERE {matches})"
        with self._connection.cursor() as cursor:
            found = cursor.execute(query).record_batches()
            keys = (pa.RecordBatch.from_arrays(batch.columns, names=self._key) for batch in found)
            self._apply(joined(keys, CHUNK_ROWS, CHUNK_BYTES), Op.DELETE_IGNORE)


def _finish(running: Iterable[Future[None]]) -> None:
    futures = list(running)
    wait(futures)
    for future in futures:
        future.result()

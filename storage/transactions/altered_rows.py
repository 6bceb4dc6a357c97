"""Own rows and reads of a transaction, in terms of another version of their table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from ...model.arrow_arrays import arrow_array, arrow_scalar
from ...model.predicates import renamed_predicate
from ...model.schema import Table
from ...model.transactions import TableRead
from ..writing.op_resolution import Given
from .base_rows import BaseRows
from .own_rows import OwnRows, table_context
from .own_run import OwnRun, Presence


def altered_rows(own: OwnRows, after: Table, base: BaseRows) -> OwnRows:
    """The own rows of a table after its ALTER. Those of dropped range partitions are left out; `own` is unchanged, for
    savepoints."""
    made = OwnRows(table_context(after), base)
    for run in own.version().runs:
        altered = _altered_run(run, after)
        if after.partitions.range_rule is not None:
            kept = np.flatnonzero(made.context.partitioner.route(altered.rows) >= 0)
            if len(kept) < len(altered):
                altered = _chosen(altered, kept)
        if len(altered):
            made.add(altered)
    return made


def _altered_run(run: OwnRun, after: Table) -> OwnRun:
    places = {column.id: place for place, column in enumerate(run.table.schema.columns)}
    # Rows that the store has show the initial value of an added column; own ones are given it.
    is_own = (run.base != Presence.PRESENT) & ~run.is_deleted
    arrays: list[pa.Array] = []
    isset: list[Given] = []
    for column in after.schema.columns:
        place = places.get(column.id)
        if place is not None:
            arrays.append(run.rows.column(place))
            isset.append(run.isset[place])
            continue
        initial = arrow_scalar(column.type.to_python(column.initial), column.type.arrow)
        arrays.append(pa.repeat(initial, len(run)))
        isset.append(True if is_own.all() else is_own if is_own.any() else False)
    rows = pa.RecordBatch.from_arrays(arrays, schema=after.schema.arrow)
    return OwnRun(after, rows, isset, run.base, run.is_deleted)


def _chosen(run: OwnRun, kept: np.ndarray) -> OwnRun:
    isset = [given if isinstance(given, bool) else given[kept] for given in run.isset]
    return OwnRun(run.table, run.rows.take(arrow_array(kept)), isset, run.base[kept], run.is_deleted[kept])


def reads_before(reads: Sequence[TableRead], before: Table) -> Iterator[TableRead]:
    """Reads of any versions of a table in terms of the one that the transaction has found."""
    names = {column.id: column.name for column in before.schema.columns}
    for read in reads:
        schema = read.table.schema
        if read.table is before:
            yield read
        elif read.keys is not None:
            renamed = [names[schema.column(name).id] for name in read.keys.schema.names]
            yield TableRead(before, (), pa.RecordBatch.from_arrays(read.keys.columns, names=renamed))
        else:
            # Without the predicates on added columns, more rows count as read.
            known = [(p, names.get(schema.column(p.column).id)) for p in read.predicates]
            predicates = tuple(renamed_predicate(p, name) for p, name in known if name is not None)
            yield TableRead(before, predicates)

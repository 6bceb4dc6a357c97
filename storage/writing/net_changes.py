"""Conversion of a batch's resolution to log entries and changes in memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ...model.arrow_arrays import arrow_array
from ...model.lazy_dataclass import dataclass
from ...model.schema import Schema
from ...model.store import Op
from ...model.vectors.vector import Array
from ..deltas.deltas import DeltaColumn, DeltaKind, Deltas
from ..log.wal_format import WritePart
from ..tablet.row_locator import Locations, RowHome
from .op_resolution import Resolution


@dataclass(frozen=True, slots=True, eq=False)
class NetChanges:
    """Net changes of a batch to the keys of one tablet, one per key.

    Parameters
    ----------
    schema : Schema
    rows : pa.RecordBatch
        The batch, in this schema.
    resolution : Resolution
        With row numbers of `rows`.
    """

    schema: Schema
    rows: pa.RecordBatch
    resolution: Resolution

    def __len__(self) -> int:
        resolution = self.resolution
        return len(resolution.inserts) + len(resolution.updates) + len(resolution.deletes)

    # ---- for the log ---------------------------------------------------------------------------------------------

    def parts(self) -> list[WritePart]:
        """The changes as they are logged; those that there are none of are left out."""
        resolution = self.resolution
        key_places = tuple(range(self.schema.key_columns))
        parts: list[WritePart] = []
        if len(resolution.inserts):
            parts.append(WritePart(Op.INSERT, self.inserted_rows(), tuple(range(len(self.schema.columns)))))
        if len(resolution.updates):
            parts.append(self._update_part(key_places))
        if len(resolution.deletes):
            parts.append(
                WritePart(Op.DELETE, self._taken(key_places, [resolution.deletes] * len(key_places)), key_places)
            )
        return parts

    def inserted_rows(self) -> pa.RecordBatch:
        """The new rows, whole, parallel to `resolution.inserts`."""
        inserts, sources = self.resolution.inserts, self.resolution.insert_sources
        if all(source is inserts for source in sources):
            return self.rows if len(inserts) == self.rows.num_rows else self.rows.take(arrow_array(inserts))
        places = tuple(range(len(self.schema.columns)))
        return self._taken(places, [*[inserts] * self.schema.key_columns, *sources])

    def _update_part(self, key_places: tuple[int, ...]) -> WritePart:
        updates = self.resolution.updates
        places, sources, isset = [*key_places], [updates] * len(key_places), {}
        for place, source in enumerate(self.resolution.update_sources, self.schema.key_columns):
            is_set = source >= 0
            if is_set.any():
                places.append(place)
                sources.append(source)
                if not is_set.all():
                    isset[place] = is_set
        return WritePart(Op.UPDATE, self._taken(tuple(places), sources), tuple(places), isset)

    def _taken(self, places: tuple[int, ...], sources: list[Array]) -> pa.RecordBatch:
        """Columns of the batch at some rows each; NULL where the row number is -1."""
        arrays = [
            self.rows.column(place) if self._is_whole(source) else self.rows.column(place).take(_as_places(source))
            for place, source in zip(places, sources)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([self.rows.schema.field(place) for place in places]))

    def _is_whole(self, source: Array) -> bool:
        """True for the numbers of all rows of the batch, in order: the columns themselves need no copy."""
        changed = (self.resolution.updates, self.resolution.deletes)
        return len(source) == self.rows.num_rows and any(source is rows for rows in changed)

    # ---- for memory ----------------------------------------------------------------------------------------------

    def new_rows(self, locations: Locations) -> Array | None:
        """Places in `resolution.inserts` of the rows that the MemRowSet has no ghost of (ndarray of intp); None for
        all."""
        fresh = locations.ghost[self.resolution.inserts] < 0
        return None if fresh.all() else np.flatnonzero(fresh)

    def deltas(self, locations: Locations, timestamp: int) -> Iterator[tuple[RowHome, Deltas]]:
        """The changes of existing rows, by place; a reinserted ghost is one of the current MemRowSet."""
        resolution = self.resolution
        rows = resolution.updates if len(resolution.updates) else resolution.deletes
        if self._is_whole(rows):
            yield from self._deltas_of_all(locations, timestamp)
            return
        ghosts = np.flatnonzero(locations.ghost[resolution.inserts] >= 0)
        again = resolution.inserts[ghosts]
        batch_rows = np.concatenate([resolution.updates, resolution.deletes, again])
        if not len(batch_rows):
            return
        kinds = np.repeat(
            np.array([DeltaKind.UPDATE, DeltaKind.DELETE, DeltaKind.REINSERT], np.uint8),
            [len(resolution.updates), len(resolution.deletes), len(again)],
        )
        home = np.where(kinds == DeltaKind.REINSERT, 0, locations.home[batch_rows])
        row = np.where(kinds == DeltaKind.REINSERT, locations.ghost[batch_rows], locations.row[batch_rows])
        nothing = np.full(len(resolution.deletes), -1)
        columns: list[tuple[int, pa.Array, Array]] = []
        for place, column in enumerate(self.schema.columns[self.schema.key_columns :]):
            source = np.concatenate(
                [resolution.update_sources[place], nothing, resolution.insert_sources[place][ghosts]]
            )
            if (source >= 0).any():
                columns.append((column.id, self.rows.column(self.schema.key_columns + place), source))
        order = np.lexsort((row, home))
        bounds = np.searchsorted(home[order], np.arange(len(locations.homes) + 1))
        for number, target in enumerate(locations.homes):
            mine = order[bounds[number] : bounds[number + 1]]
            if len(mine):
                given = {}
                for column_id, values, source in columns:
                    wanted = source[mine]
                    places = np.flatnonzero(wanted >= 0)
                    if len(places):
                        given[column_id] = DeltaColumn(places, values.take(arrow_array(wanted[places])))
                yield target, Deltas.at(timestamp, row[mine], kinds[mine], given)

    def _deltas_of_all(self, locations: Locations, timestamp: int) -> Iterator[tuple[RowHome, Deltas]]:
        """`deltas` where all rows of the batch are updated, or all deleted."""
        resolution = self.resolution
        is_update = len(resolution.updates) > 0
        kind = DeltaKind.UPDATE if is_update else DeltaKind.DELETE
        for number, target in enumerate(locations.homes):
            mine: Array | None = np.flatnonzero(locations.home == number)
            assert mine is not None
            if not len(mine):
                continue
            if len(mine) == len(locations.home):
                mine = None
            row = locations.row if mine is None else locations.row[mine]
            if not (row[1:] > row[:-1]).all():
                order = np.argsort(row, kind="stable")
                mine, row = order if mine is None else mine[order], row[order]
            given = {}
            if is_update:
                everywhere = np.arange(len(row))
                for place, column in enumerate(self.schema.columns[self.schema.key_columns :]):
                    source = resolution.update_sources[place]
                    values = self.rows.column(self.schema.key_columns + place)
                    if source is resolution.updates:
                        taken = _copied(values) if mine is None else values.take(arrow_array(mine))
                        given[column.id] = DeltaColumn(everywhere, taken)
                    elif (source >= 0).any():
                        wanted = source if mine is None else source[mine]
                        places = np.flatnonzero(wanted >= 0)
                        if len(places):
                            given[column.id] = DeltaColumn(places, values.take(arrow_array(wanted[places])))
            yield target, Deltas.at(timestamp, row, kind, given)


def _as_places(source: Array) -> pa.Array:
    return arrow_array(source, mask=source < 0)


def _copied(values: pa.Array) -> pa.Array:
    """A copy: the caller of a write may go on to change arrays under its own batch, and slices hold all of it."""
    return pa.concat_arrays([values, values.slice(0, 0)])

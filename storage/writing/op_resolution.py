"""Resolution of the ops of one batch: refused rows, and the net change of each key.

    row   op       key      store: 4 is there, 9 is not             in the end
    0     DELETE   4        deleted                                  4: UPDATE of all columns (to those of row 2)
    1     INSERT   9        inserted                                 9: INSERT with the columns of row 1, b of row 3
    2     INSERT   4        inserted
    3     UPDATE   9        updated
    4     INSERT   4        refused: 4 is there

The ops of one key take effect in the order of their rows. An op depends on earlier ones only by the existence of its
key. After INSERT and UPSERT the key exists, whether they succeed or not; after DELETE it does not. UPDATE does not
change its existence, and neither does an INSERT or UPSERT without a value for a NOT NULL column: it fails if the key
does not exist. So existence follows from the last earlier op that determines it, or else from the store; this is one
running maximum over the rows in the order of keys.

States between two ops of one batch are never visible, because it has one timestamp. Therefore one change is logged and
stored per key: INSERT, UPDATE, DELETE or nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...model.keys.keys import Keys
from ...model.lazy_dataclass import dataclass
from ...model.store import Op
from ...model.vectors.vector import Array

Given = bool | Array
"""Which rows give a column: all, none, or those of an ndarray of bool, shape (n_rows,)."""


class Refusal:
    """Reasons for refusing a row: codes of `Resolution.refusals`."""

    NONE, ALREADY_PRESENT, NOT_FOUND, IMMUTABLE, INCOMPLETE = range(5)


@dataclass(frozen=True, slots=True, eq=False)
class Resolution:
    """Result of resolving a batch.

    Parameters
    ----------
    refusals : ndarray of uint8, shape (n_rows,)
        Codes of `Refusal`; 0 for rows that succeeded or were ignored.
    applied : int
        Number of ops with an effect, applied one after the other.
    inserts : ndarray of intp, shape (n_inserts,)
        New keys: a row with each of them, ascending.
    updates : ndarray of intp, shape (n_updates,)
        Existing keys with new values, likewise.
    deletes : ndarray of intp, shape (n_deletes,)
        Deleted keys, likewise.
    insert_sources : sequence of ndarray of intp, shape (n_inserts,)
        For each non-key column, the rows with the values of the inserted rows: the batch's value, or the column's
        default.
    update_sources : sequence of ndarray of intp, shape (n_updates,)
        For each non-key column, the rows with the new values; -1 if the value is unchanged.
    """

    refusals: Array
    applied: int
    inserts: Array
    updates: Array
    deletes: Array
    insert_sources: Sequence[Array]
    update_sources: Sequence[Array]


@dataclass(frozen=True, slots=True, eq=False)
class OpBatch:
    """The rows of a batch as the resolution sees them.

    Parameters
    ----------
    keys : Keys
    ops : ndarray of uint8, shape (n_rows,)
    given : sequence of Given
        Per non-key column.
    immutable : sequence of bool
        Per non-key column.
    incomplete : ndarray of bool, shape (n_rows,), or None
        Rows that cannot be inserted: a NOT NULL column without a default has no value. None where there is none.
    is_distinct : bool
        It is known that no key occurs twice; otherwise that is found by their order.
    """

    keys: Keys
    ops: Array
    given: Sequence[Given]
    immutable: Sequence[bool]
    incomplete: Array | None
    is_distinct: bool = False


def resolve_ops(batch: OpBatch, present: Array) -> Resolution:
    """Resolve a batch.

    Parameters
    ----------
    batch : OpBatch
    present : ndarray of bool, shape (n_rows,)
        Which rows' keys were there before the batch.
    """
    repeated = _NO_ROWS if batch.is_distinct else batch.keys.duplicates()
    if not len(repeated):
        if (changed := _changed_rows(batch, present)) is not None:
            return changed
        if _are_whole_upserts(batch):
            return _replaced_rows(batch, present)
    if len(repeated) or (_FAMILY[batch.ops] != _INSERT).any():
        return _Resolver(batch, repeated, present).resolve()
    return _new_rows(batch, present)


_INSERT, _UPSERT, _UPDATE, _DELETE = 1, 2, 3, 4
_FAMILY = np.zeros(max(Op) + 1, np.uint8)
_FAMILY[[Op.INSERT, Op.INSERT_IGNORE]] = _INSERT
_FAMILY[[Op.UPSERT, Op.UPSERT_IGNORE]] = _UPSERT
_FAMILY[[Op.UPDATE, Op.UPDATE_IGNORE]] = _UPDATE
_FAMILY[[Op.DELETE, Op.DELETE_IGNORE]] = _DELETE
_IGNORES = np.zeros(max(Op) + 1, np.bool_)
_IGNORES[[Op.INSERT_IGNORE, Op.UPSERT_IGNORE, Op.UPDATE_IGNORE, Op.DELETE_IGNORE]] = True
_NO_ROWS = np.empty(0, np.intp)


def _new_rows(batch: OpBatch, present: Array) -> Resolution:
    """The usual batch: INSERTs, no key twice."""
    refusals = np.where(present & ~_IGNORES[batch.ops], Refusal.ALREADY_PRESENT, Refusal.NONE).astype(np.uint8)
    refused = present
    if batch.incomplete is not None:
        refusals[batch.incomplete & ~present] = Refusal.INCOMPLETE
        refused = present | batch.incomplete
    inserts = np.flatnonzero(~refused)
    columns = len(batch.given)
    return Resolution(refusals, len(inserts), inserts, _NO_ROWS, _NO_ROWS, [inserts] * columns, [_NO_ROWS] * columns)


def _changed_rows(batch: OpBatch, present: Array) -> Resolution | None:
    """The usual batch of an UPDATE or DELETE statement: rows that are there, no key twice. None for another batch."""
    if not len(batch.ops) or not present.all():
        return None
    family = _FAMILY[batch.ops]
    if family[0] not in (_UPDATE, _DELETE) or (family != family[0]).any():
        return None
    rows, columns = np.arange(len(batch.ops)), len(batch.given)
    refusals = np.zeros(len(rows), np.uint8)
    nothing, empty = np.full(len(rows), -1), [_NO_ROWS] * columns
    if family[0] == _DELETE:
        return Resolution(refusals, len(rows), _NO_ROWS, _NO_ROWS, rows, empty, empty)
    given = list(zip(batch.given, batch.immutable))
    if not any(isset is True for isset, _ in given) or any(
        isset is not False and (isset is not True or immutable) for isset, immutable in given
    ):
        return None
    sources = [rows if isset else nothing for isset, _ in given]
    return Resolution(refusals, len(rows), _NO_ROWS, rows, _NO_ROWS, empty, sources)


def _are_whole_upserts(batch: OpBatch) -> bool:
    if any(given is not True for given in batch.given) or any(batch.immutable) or not batch.given:
        return False
    return bool((_FAMILY[batch.ops] == _UPSERT).all())


def _replaced_rows(batch: OpBatch, present: Array) -> Resolution:
    """The usual batch of an UPSERT statement: whole rows, no key twice."""
    inserts, updates = np.flatnonzero(~present), np.flatnonzero(present)
    refusals, columns = np.zeros(len(present), np.uint8), len(batch.given)
    inserted, updated = [inserts] * columns, [updates] * columns
    return Resolution(refusals, len(present), inserts, updates, _NO_ROWS, inserted, updated)


class _Resolver:
    """The rows in the order of their keys, those of one key side by side as they came: places, not row numbers."""

    def __init__(self, batch: OpBatch, repeated: Array, present: Array):
        self.batch = batch
        count = len(batch.ops)
        self.order: Array | None = None
        """The row at each place; None where no key repeats: the rows stay as they are."""
        self.start = np.arange(count)
        """Per place, the first place of its key."""
        self.ends = self.start
        """The last place of each key."""
        if len(repeated):
            self.order = batch.keys.order()
            is_first = np.ones(count, np.bool_)
            is_first[repeated] = False
            is_first = is_first[self.order]
            self.start = np.maximum.accumulate(np.where(is_first, self.start, 0))
            self.ends = np.flatnonzero(np.append(is_first[1:], True))
        self.family = self._in_order(_FAMILY[batch.ops])
        self.ignores = self._in_order(_IGNORES[batch.ops])
        self.present = self._in_order(present)
        self.incomplete = None if batch.incomplete is None else self._in_order(batch.incomplete)
        self.before = self._alive_before()

    def _in_order(self, values: Array) -> Array:
        return values if self.order is None else values[self.order]

    def _alive_before(self) -> Array:
        """True for ops before which the key exists."""
        if self.order is None:
            return self.present
        decides = self.family != _UPDATE
        if self.incomplete is not None:
            decides &= ~self.incomplete | (self.family == _DELETE)
        last = _last_place(decides)
        previous = np.concatenate(([-1], last[:-1]))
        return np.where(previous >= self.start, self.family[previous] != _DELETE, self.present)

    def resolve(self) -> Resolution:
        """The whole answer."""
        family, before = self.family, self.before
        inserts = ((family == _INSERT) | (family == _UPSERT)) & ~before
        updates = ((family == _UPDATE) | (family == _UPSERT)) & before
        deletes = (family == _DELETE) & before
        refusals = self._refusals(inserts, updates)
        accepted = refusals == Refusal.NONE
        inserts &= accepted
        updates &= accepted
        sets = [self._sets(number, inserts, updates) for number in range(len(self.batch.given))]
        updates &= np.logical_or.reduce(sets) if sets else False
        applied = np.count_nonzero(inserts) + np.count_nonzero(updates) + np.count_nonzero(deletes)
        if self.order is not None:
            by_row = np.empty_like(refusals)
            by_row[self.order] = refusals
            refusals = by_row
        return self._net(refusals, int(applied), inserts, updates, deletes, sets)

    def _refusals(self, inserts: Array, updates: Array) -> Array:
        family, before = self.family, self.before
        refusals = np.zeros(len(family), np.uint8)
        loud = ~self.ignores
        refusals[loud & before & (family == _INSERT)] = Refusal.ALREADY_PRESENT
        refusals[loud & ~before & (family >= _UPDATE)] = Refusal.NOT_FOUND
        for given, immutable in zip(self.batch.given, self.batch.immutable):
            if immutable and given is not False:
                gives = updates & loud if given is True else updates & loud & self._in_order(given)
                refusals[gives] = Refusal.IMMUTABLE
        if self.incomplete is not None:
            refusals[inserts & self.incomplete] = Refusal.INCOMPLETE
        return refusals

    def _sets(self, column: int, inserts: Array, updates: Array) -> Array:
        """At which places a column gets a value; an immutable one only where the row is inserted."""
        given = self.batch.given[column]
        if given is False:
            return np.zeros(len(inserts), np.bool_)
        changing = inserts if self.batch.immutable[column] else inserts | updates
        return changing if given is True else changing & self._in_order(given)

    def _net(
        self, refusals: Array, applied: int, inserts: Array, updates: Array, deletes: Array, sets: Sequence[Array]
    ) -> Resolution:
        """Net result of each key's ops."""
        ends, starts = self.ends, self.start[self.ends]
        was, final = self.present[ends], ((self.before | inserts) & ~deletes)[ends]
        born_at, touched_at = _last_place(inserts)[ends], _last_place(updates)[ends]
        kinds = (~was & final, was & final & ((born_at >= starts) | (touched_at >= starts)), was & ~final)
        rows = ends if self.order is None else self.order[ends]
        chosen = []
        for kind in kinds:
            keys = np.flatnonzero(kind)
            chosen.append(keys if self.order is None else keys[np.argsort(rows[keys])])
        born, changed, gone = chosen
        # A key that was inserted starts anew with that row; what ops before it set is gone.
        since = np.maximum(starts, born_at)
        default = np.where(born_at >= starts, born_at, -1)
        insert_sources, update_sources = [], []
        for mask in sets:
            set_at = _last_place(mask)[ends]
            sources = np.where(set_at >= since, set_at, default)
            insert_sources.append(self._rows(sources[born]))
            update_sources.append(self._rows(sources[changed]))
        return Resolution(refusals, applied, rows[born], rows[changed], rows[gone], insert_sources, update_sources)

    def _rows(self, places: Array) -> Array:
        """Row numbers of places; -1 stays."""
        return places if self.order is None else np.where(places >= 0, self.order[places], -1)


def _last_place(mask: Array) -> Array:
    """At each place, the last one up to it where `mask` is True; -1 where there is none."""
    return np.maximum.accumulate(np.where(mask, np.arange(len(mask)), -1))

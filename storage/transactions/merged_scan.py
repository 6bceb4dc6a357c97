"""Scans of a table with own rows: the store's rows without those that the transaction has changed, and its own rows.

    the store's tokens     tablet 1 a    tablet 1 b    tablet 2
    own rows               {7, 9} of tablet 1
    tokens                 1 a and 1 b without keys 7 and 9;  own rows of tablet 1;  tablet 2 as it is

Own rows are put to the tablet that has their keys, so that rows of two partitions differ in the partition columns, as
plans assume. In a scan by key, the tablet's own rows are merged into its token, which stays the only one.

Predicates on key columns are evaluated when the tokens are made, as keys never change; the others when a token is read,
on the transaction's values. The store evaluates them on its own values: a row that it drops, but which the transaction
has changed, is among the own rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ...model.lazy_dataclass import dataclass
from ...model.predicates import ColumnPredicate
from ...model.schema import Table
from ...model.store import ScanBatches, ScanCounters, ScanSpec, ScanToken
from ...model.vectors.vector import Array, Batch, LazyColumn, Vector
from ..columns.column_file import ROW_GROUP_ROWS
from ..predicate_eval.evaluation import evaluate
from ..reading.ordered_scan import KeyColumns, OrderedSource, merged
from ..reading.tablet_scan import first_rows
from .base_rows import BaseRows
from .key_index import KeyIndex
from .own_rows import OwnRows, OwnVersion
from .own_run import OwnRun


@dataclass(frozen=True, slots=True, eq=False)
class RunRows:
    """Some entries of a run, none of them deleted: ndarray of intp, ascending."""

    run: OwnRun
    rows: Array


@dataclass(frozen=True, slots=True, eq=False)
class MergedPart:
    """`ScanToken.part` of a token with own rows.

    Parameters
    ----------
    base : ScanToken, optional
        The store's token; its spec has the key columns that the token's lacks behind the others.
    hidden : tuple of KeyIndex
        Keys whose rows in the store are left out.
    hidden_rows : int
        How many rows the store may give that are left out.
    own : tuple of RunRows
        Own rows of the token, which may satisfy its predicates.
    rows : BaseRows
    """

    base: ScanToken | None
    hidden: tuple[KeyIndex, ...]
    hidden_rows: int
    own: tuple[RunRows, ...]
    rows: BaseRows


# ---- tokens ------------------------------------------------------------------------------------------------------


def merged_tokens(own: OwnRows, version: OwnVersion, spec: ScanSpec) -> list[ScanToken]:
    """The tokens of a scan at the transaction's snapshot; they show this version of the own rows."""
    base = own.base
    found = _chosen(own, version, spec)
    if spec.limit is None:
        base_spec = spec
    else:
        base_spec = replace(spec, limit=spec.limit + found.hidden_rows)
    if not found.own and not found.hidden:
        return base.store.scan_tokens(own.context.table, spec)
    if found.hidden or spec.ordered:
        base_spec = replace(base_spec, columns=(*spec.columns, *_key_columns_behind(own.context.table, spec)))
    partitions = own.context.partitioner.partitions
    place_of = {partition.place: place for place, partition in enumerate(partitions)}
    theirs = [(place_of.get(t.partition, -1), t) for t in base.store.scan_tokens(own.context.table, base_spec)]
    count = Counter(place for place, _ in theirs)
    tokens: list[tuple[int, ScanToken]] = []
    for place, token in theirs:
        # Of a tablet with one token, that token has the own rows, too: small tokens are taken for whole tablets.
        joins = spec.ordered or (count[place] == 1 and _are_few(found.own.get(place, ()), spec.split_rows))
        mine = found.own.pop(place, ()) if joins else ()
        hides = place < 0 or place in found.hidden_places
        part = MergedPart(token, found.hidden if hides else (), found.hidden_rows, tuple(mine), base)
        rows = token.rows + sum(len(some.rows) for some in mine)
        tokens.append((place, replace(token, spec=spec, part=(part,), rows=rows)))
    tokens += _own_tokens(own, found.own, spec, {place: token.tablet_id for place, token in theirs})
    tokens.sort(key=lambda placed: placed[0])
    return [token for _, token in tokens]


def _own_tokens(
    own: OwnRows, rows: Mapping[int, list[RunRows]], spec: ScanSpec, ids: Mapping[int, str]
) -> Iterator[tuple[int, ScanToken]]:
    """Tokens of own rows alone, with their partitions' places. `ids`: of the tablets that have tokens of the store."""
    table, partitions = own.context.table, own.context.partitioner.partitions
    known = ids
    if rows and (spec.tablet is not None or any(place not in ids for place in rows)):
        known = {place: tablet.id for place, tablet in enumerate(own.base.store.describe_tablets(table))}
    for place, mine in rows.items():
        if spec.tablet not in (None, known[place]):
            continue
        pieces = [mine] if spec.ordered else list(_split(mine, spec.split_rows))
        is_small = place not in ids and len(pieces) == 1
        for some in pieces:
            part = MergedPart(None, (), 0, tuple(some), own.base)
            count = sum(len(piece.rows) for piece in some)
            yield place, ScanToken(table, known[place], spec, (part,), count, partitions[place].place, is_small)


@dataclass(frozen=True, slots=True, eq=False)
class _Chosen:
    """Own entries that satisfy a scan's predicates on keys: rows by partition, and keys to be left out."""

    own: dict[int, list[RunRows]]
    hidden: tuple[KeyIndex, ...]
    hidden_rows: int
    hidden_places: frozenset[int]


def _chosen(own: OwnRows, version: OwnVersion, spec: ScanSpec) -> _Chosen:
    context = own.context
    names = [column.name for column in context.table.schema.key]
    predicates = [predicate for predicate in spec.predicates if predicate.column in names]
    by_place: dict[int, list[RunRows]] = {}
    hidden: list[KeyIndex] = []
    hidden_rows = 0
    hidden_places: set[int] = set()
    for run, current in zip(version.runs, version.current):
        mask = current
        for predicate in predicates:
            mask = mask & evaluate(predicate, run.keys.columns[names.index(predicate.column)])
        places = run.places(context.partitioner)
        shadows = np.flatnonzero(mask & run.is_shadow)
        if len(shadows):
            assert run.shadows is not None
            hidden.append(run.shadows)
            hidden_rows += len(shadows)
            hidden_places.update(np.unique(places[shadows]).tolist())
        rows = np.flatnonzero(mask & ~run.is_deleted)
        if not len(rows):
            continue
        found = np.unique(places[rows]).tolist()
        for place in found:
            mine = rows if len(found) == 1 else rows[places[rows] == place]
            by_place.setdefault(place, []).append(RunRows(run, mine))
    return _Chosen(by_place, tuple(hidden), hidden_rows, frozenset(hidden_places))


def _are_few(some: Sequence[RunRows], split_rows: int | None) -> bool:
    return split_rows is None or sum(len(part.rows) for part in some) <= split_rows


def _split(some: Sequence[RunRows], split_rows: int | None) -> Iterator[list[RunRows]]:
    """The rows in parts of at most `split_rows` of one run."""
    if split_rows is None or _are_few(some, split_rows):
        yield list(some)
        return
    for part in some:
        for start in range(0, len(part.rows), split_rows):
            yield [RunRows(part.run, part.rows[start : start + split_rows])]


def _key_columns_behind(table: Table, spec: ScanSpec) -> list[str]:
    """The key columns that a scan does not project."""
    return [column.name for column in table.schema.key if column.name not in spec.columns]


# ---- batches -----------------------------------------------------------------------------------------------------


def merged_part(token: ScanToken) -> MergedPart | None:
    """Contents of a token of a table with own rows; None for a token of the store."""
    (part,) = token.part if len(token.part) == 1 else (None,)
    return part if isinstance(part, MergedPart) else None


def base_token(token: ScanToken) -> ScanToken | None:
    """The store's token under one with own rows, with predicates that were added to it since; None if it has none."""
    part = merged_part(token)
    assert part is not None
    if part.base is None:
        return None
    spec, before = token.spec, part.base.spec
    columns = spec.columns
    if part.hidden or spec.ordered:
        columns = (*columns, *_key_columns_behind(token.table, spec))
    limit = None if spec.limit is None else spec.limit + part.hidden_rows
    changed = replace(
        before,
        columns=columns,
        predicates=spec.predicates,
        ordered=spec.ordered,
        descending=spec.descending,
        limit=limit,
        fragment=spec.fragment,
    )
    return part.base if changed == before else replace(part.base, spec=changed)


class MergedBatches:
    """The batches of a token with own rows; `ScanBatches`.

    Parameters
    ----------
    token : ScanToken
    base : ScanBatches, optional
        Those of `base_token`, for which `counters` are counted up already.
    counters : ScanCounters
    """

    def __init__(self, token: ScanToken, base: ScanBatches | Iterator[Batch] | None, counters: ScanCounters):
        self._base = base
        self._batches = _batches(token, base, counters)

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        return next(self._batches)

    def close(self) -> None:
        """End the scan. Closing again has no effect."""
        self._batches.close()
        if self._base is not None and hasattr(self._base, "close"):
            self._base.close()


def _batches(token: ScanToken, base: ScanBatches | Iterator[Batch] | None, counters: ScanCounters) -> Generator[Batch]:
    part = merged_part(token)
    assert part is not None
    spec, schema = token.spec, token.table.schema
    names = list(spec.columns)
    if part.hidden or spec.ordered:
        names += _key_columns_behind(token.table, spec)
    theirs = iter(()) if base is None else _without(part.hidden, token.table, names, base, counters)
    if spec.ordered:
        key = KeyColumns(
            tuple(column.type for column in schema.key),
            tuple(names.index(column.name) for column in schema.key),
            spec.descending,
        )
        sources = [
            source for some in part.own for source in _ordered_source(some, names, spec, key, part.rows, counters)
        ]
        batches: Iterator[Batch] = merged(sources, (), key, spec.limit, [theirs] if sources else [])
        if not sources:
            batches = theirs if spec.limit is None else first_rows(theirs, spec.limit)
    else:
        batches = _unordered(part, names, spec, theirs, counters)
        if spec.limit is not None:
            batches = first_rows(batches, spec.limit)
    width = len(spec.columns)
    for batch in batches:
        yield batch if batch.width == width else batch.project(range(width))


def _unordered(
    part: MergedPart, names: Sequence[str], spec: ScanSpec, theirs: Iterator[Batch], counters: ScanCounters
) -> Iterator[Batch]:
    yield from theirs
    for some in part.own:
        rows = _satisfying(some, spec.predicates, part.rows, counters)
        yield from _own_batches(some.run, rows, names, part.rows)


def _without(
    hidden: Sequence[KeyIndex],
    table: Table,
    names: Sequence[str],
    batches: ScanBatches | Iterator[Batch],
    counters: ScanCounters,
) -> Iterator[Batch]:
    """The batches without the rows that have hidden keys; never empty."""
    if not hidden:
        yield from batches
        return
    places = [names.index(column.name) for column in table.schema.key]
    for batch in batches:
        found = [rows for keys in hidden if len(rows := keys.rows_in(batch, places))]
        if not found:
            yield batch
            continue
        kept = np.ones(batch.length, np.bool_)
        for rows in found:
            kept[rows] = False
        left = np.flatnonzero(kept)
        counters.rows_returned -= batch.length - len(left)
        if len(left):
            yield batch.select(left)


def _satisfying(some: RunRows, predicates: Sequence[ColumnPredicate], base: BaseRows, counters: ScanCounters) -> Array:
    """The rows that satisfy all predicates (ndarray of intp, ascending)."""
    run, rows = some.run, some.rows
    counters.passing(len(rows))
    counters.rows_considered += len(rows)
    schema = run.table.schema
    places = [schema.position(predicate.column) for predicate in predicates]
    run.complete(places, base)
    for place, predicate in zip(places, predicates):
        if len(rows):
            vector = run.column(place, base)
            rows = rows[evaluate(predicate, vector if len(rows) == len(run) else vector.take(rows))]
    counters.rows_returned += len(rows)
    return rows


def _own_batches(run: OwnRun, rows: Array, names: Sequence[str], base: BaseRows) -> Iterator[Batch]:
    """Rows of a run, in their order; columns are made at first touch."""
    places = [run.table.schema.position(name) for name in names]
    run.complete(places, base)
    for start in range(0, len(rows), ROW_GROUP_ROWS):
        chosen = rows[start : start + ROW_GROUP_ROWS]
        yield Batch([LazyColumn(partial(_load, run, place, base), chosen) for place in places], len(chosen))


def _load(run: OwnRun, place: int, base: BaseRows, chosen: Array | None) -> Vector:
    vector = run.column(place, base)
    return vector if chosen is None else vector.take(chosen)


def _ordered_source(
    some: RunRows, names: Sequence[str], spec: ScanSpec, key: KeyColumns, base: BaseRows, counters: ScanCounters
) -> Iterator[OrderedSource]:
    """The rows that satisfy the predicates, in the order of the scan; none, or one source."""
    rows = _satisfying(some, spec.predicates, base, counters)
    if not len(rows):
        return
    keys = some.run.keys
    if len(rows) < len(keys):
        keys = keys.take(rows)
    rows = rows[keys.order()]
    if spec.descending:
        rows = rows[::-1]
    lowest, highest = (key.comparable(some.run.keys.values_at(int(row))) for row in (rows[0], rows[-1]))
    yield OrderedSource(lambda: _own_batches(some.run, rows, names, base), lowest, highest)

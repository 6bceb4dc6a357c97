"""Look-up of probe batches in a build side that is in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...model.vectors.vector import Array, Batch, Vector, taken
from ..expressions.evaluate import Compiler
from ..run.memory import Account
from . import probe_runs
from .code_table import CodeTable
from .join_index import JoinIndex
from .join_keys import KeyCoder
from .join_shape import JoinShape
from .pairs import BUILD_ONLY, MARKS_BUILD, Matches, Part, all_pairs
from .probe_runs import ProbeRuns
from .range_index import FEWEST, BuildBounds, RangeIndex, present_rows
from .unequal_rows import UnequalRows

_SPARING = 4
"""Entries of a direct table per row if memory is short."""


class Probing:
    """An indexed build side, and the output for probe batches. Threads share it.

    Parameters
    ----------
    shape : JoinShape
    build : Batch
        The build side's rows.
    keys : list of Vector
        Their keys, at least one.
    account : Account, optional
        Account that holds them, as long as this object lives.
    sparing : bool
        Choose an index for little memory rather than for speed.
    """

    def __init__(
        self,
        shape: JoinShape,
        build: Batch,
        keys: list[Vector],
        account: Account | None = None,
        sparing: bool = False,
    ):
        self._account = account
        self.kind = shape.kind
        self.matches = Matches(shape.kind, shape.output, shape.probe, shape.build, build, shape.condition)
        self._keys = Compiler(shape.probe).compile_all(shape.probe_keys)
        self._coder, codes = KeyCoder.learn(keys)
        self._unequal = UnequalRows.make(shape, build, codes, self._coder.size)
        if self._unequal is not None:
            codes = codes[:0]  # no pairs are needed
        if sparing:
            self._index = JoinIndex(codes, self._coder.size, most=_SPARING * build.length)
        else:
            self._index = JoinIndex(codes, self._coder.size)
        self._runs: ProbeRuns | None = None
        self._range: RangeIndex | None = None
        if shape.residual is not None and not sparing and self._index.rows_per_key >= probe_runs.FEWEST:
            bounds = BuildBounds.of(shape, build, self._index.slots(codes))
            self._runs = ProbeRuns.make(shape, bounds)
            if self._index.rows_per_key >= FEWEST:
                self._range = RangeIndex.make(shape, bounds)
        self._null_build_rows = rows_with_null(keys, build.length)
        self._simple_not_in = shape.is_simple_not_in
        self._is_plain = shape.residual is None and shape.kind != "null_anti"
        self._is_half = self._unequal is not None or (self._is_plain and shape.kind in ("semi", "anti"))
        self._probe_columns = shape.probe
        is_direct = self._is_plain and not self._is_half and self._index.is_unique and len(keys) == 1
        self._by_code = CodeTable(self._coder, self._index) if is_direct else None

    def probe_all(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Yield the join's rows for a morsel of the probe side."""
        for batch in batches:
            if batch.length:
                for result in self._probe(batch):
                    if result.length:
                        yield result

    @property
    def index_bytes(self) -> int:
        """Bytes of the index."""
        parts = (self._runs, self._range, self._unequal)
        return self._index.bytes + sum(part.bytes for part in parts if part is not None)

    @property
    def searched(self) -> list[int] | None:
        """Numbers of the probe rows that were searched in their order, and of all, as they grow; None: no search."""
        return None if self._runs is None else self._runs.searched

    def rest(self) -> Batch:
        """Return the output after all probe rows; for the kinds of `MARKS_BUILD`."""
        return self.matches.rest(self._probe_columns)

    @property
    def looked_up(self) -> list[int] | None:
        """Number of the probe rows that were looked up by their codes, as it grows; None: no such look-up."""
        return None if self._by_code is None else self._by_code.looked_up

    def _probe(self, batch: Batch) -> Iterator[Batch]:
        keys = [evaluate(batch) for evaluate in self._keys]
        if self._by_code is not None:
            rows = self._by_code.rows(keys[0])
            if rows is not None:
                return self._unique(batch, rows)
        codes = self._coder.encode(keys)
        if self._simple_not_in:
            return iter((self._not_in(batch, keys[0], codes),))
        if self._is_half:
            return self._half(batch, codes)
        if self._is_plain and self._index.is_unique:
            return self._unique(batch, self._index.find(codes))
        parts, exact = self._candidates(batch, keys, codes)
        return self.matches.emit(batch, parts, exact)

    def _half(self, batch: Batch, codes: Array) -> Iterator[Batch]:
        """Semi and anti joins without pairs."""
        mask = self._has(batch, codes)
        if self.kind == "anti":
            mask = ~mask
        yield self.matches.project(batch if mask.all() else batch.select(mask))

    def _has(self, batch: Batch, codes: Array) -> Array:
        return self._index.has(codes) if self._unequal is None else self._unequal.has(batch, codes)

    def _unique(self, batch: Batch, rows: Array) -> Iterator[Batch]:
        """Join with at most one partner per probe row, so rows never multiply. `rows` are the partners, -1 for none."""
        matches = self.matches
        mask = rows >= 0
        if self.kind in MARKS_BUILD:
            matches.mark(rows[mask])
            if self.kind in BUILD_ONLY:
                return
        if mask.all():
            yield matches.project(matches.pair(batch, None, rows))
        elif self.kind in ("left", "full", "single"):
            yield matches.project(matches.extended(batch, rows))
        else:
            chosen = np.flatnonzero(mask)
            yield matches.project(matches.pair(batch, chosen, taken(rows, chosen)))

    # ---- a part of the build side -----------------------------------------------------------------------------------

    def emit_matches(self, batch: Batch, hit: Array) -> Iterator[Batch]:
        """`Matches.emit_matches` for a part of the build rows."""
        keys = [evaluate(batch) for evaluate in self._keys]
        codes = self._coder.encode(keys)
        if self._is_half:
            hit |= self._has(batch, codes)
            return
        parts, exact = self._candidates(batch, keys, codes)
        yield from self.matches.emit_matches(batch, parts, hit, exact)

    def emit_settled(self, batch: Batch, hit: Array) -> Iterator[Batch]:
        """`Matches.emit_settled`."""
        return self.matches.emit_settled(batch, hit)

    def _candidates(self, batch: Batch, keys: list[Vector], codes: Array) -> tuple[Iterator[Part], bool]:
        """Return the candidates, and True if all of them are matches."""
        searched = [ranges for ranges in (self._runs, self._range) if ranges is not None]
        slots = self._index.slots(codes) if searched else codes
        for ranges in searched:
            parts = ranges.pairs(batch, slots)
            if parts is not None:
                return parts, ranges.is_exact
        return self._equal(batch, keys, codes), False

    def _equal(self, batch: Batch, keys: list[Vector], codes: Array) -> Iterator[Part]:
        """Pairs with equal keys; under NOT IN also those in which a key is NULL: a probe row stays unless the condition
        is true *or NULL* for some build row."""
        yield from self._index.pairs(codes)
        if self.kind == "null_anti":
            yield from all_pairs(np.arange(batch.length), self._null_build_rows)
            yield from all_pairs(rows_with_null(keys, batch.length), np.arange(self.matches.build.length))

    def _not_in(self, batch: Batch, key: Vector, codes: Array) -> Batch:
        """NOT IN by one key alone."""
        build = self.matches.build
        if not build.length:
            return self.matches.project(batch)
        if len(self._null_build_rows):
            return self.matches.project(batch.select(np.empty(0, np.intp)))
        mask = ~self._index.has(codes)
        if key.validity is not None:
            mask &= key.validity
        return self.matches.project(batch.select(mask))


def rows_with_null(keys: Sequence[Vector], length: int) -> Array:
    """Return the rows in which some key is NULL."""
    return np.flatnonzero(~present_rows(keys, length))

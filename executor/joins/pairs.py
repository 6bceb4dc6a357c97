"""Conversion of candidate pairs of probe and build rows to the output rows of a join kind.

Both joins share it: the hash join supplies the pairs that its index finds, the nested loop supplies all pairs. A
condition, if there is one, decides which candidates are matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from ...errors import CardinalityViolation
from ...model.vectors.vector import Array, Batch, Const
from ...sql.expressions import Column, Expr
from ..expressions.evaluate import Compiler
from ..kernels.boolean import falsehoods
from ..lazy import null_extended
from .join_index import PAIRS_AT_ONCE

Part: TypeAlias = tuple[Array, Array]
"""(probe rows, build rows): a candidate pair per position; probe rows ascending, all of one probe row in one part."""

BUILD_ONLY = frozenset(("right_semi", "right_anti"))
MARKS_BUILD = BUILD_ONLY | {"right", "full"}
"""Kinds that must know at the end which build rows had a partner."""
KEEPS_PROBE = frozenset(("left", "full", "single"))
"""Kinds that produce a probe row without partner with NULLs."""
GIVES_PAIRS = frozenset(("inner", "cross", "left", "right", "full", "single"))


class Matches:
    """Converts candidate pairs to a join's rows. All threads of a join share one object.

    Parameters
    ----------
    kind : str
        As in `planner.algebra.physical.HashJoin`.
    output : sequence of Column
        Any of the two sides' columns (of the probe side's only, or the build side's only, for the kinds that require
        it).
    condition : Expr, optional
        Over the columns of both sides.
    """

    def __init__(
        self,
        kind: str,
        output: Sequence[Column],
        probe: Sequence[Column],
        build: Sequence[Column],
        build_rows: Batch,
        condition: Expr | None,
    ):
        self.kind = kind
        self.build = build_rows
        self._probe_width = len(probe)
        positions = {column.id: i for i, column in enumerate((*probe, *build))}
        self._output = [positions[column.id] for column in output]
        compiler = Compiler((*probe, *build))
        self._condition = None if condition is None else compiler.condition(condition)
        self._truth = None if condition is None else compiler.compile(condition)
        # Threads set entries to True only, so they need no lock.
        self._marked = np.zeros(build_rows.length if kind in MARKS_BUILD else 0, np.bool_)

    # ---- rows of pairs --------------------------------------------------------------------------------------------

    def pair(self, probe: Batch, probe_rows: Array | None, build_rows: Array) -> Batch:
        """Combine both sides' columns; `probe_rows` None: every probe row once, in order."""
        left = probe if probe_rows is None else probe.select(probe_rows)
        return left.append(self.build.select(build_rows).slots())

    def extended(self, probe: Batch, build_rows: Array) -> Batch:
        """Combine every probe row once, with NULLs if its build row is negative."""
        return probe.append(null_extended(self.build, build_rows))

    def project(self, both: Batch) -> Batch:
        """Return the output columns of a batch of both sides' columns."""
        return both.project(self._output)

    # ---- kinds ----------------------------------------------------------------------------------------------------

    def emit(self, probe: Batch, parts: Iterable[Part], exact: bool = False) -> Iterator[Batch]:
        """Yield a probe batch's output; build rows with a partner are marked if the kind needs them. `exact`: all
        candidates are matches."""
        hit = np.zeros(probe.length, np.bool_)
        yield from self.emit_matches(probe, parts, hit, exact)
        yield from self.emit_settled(probe, hit)

    def emit_matches(self, probe: Batch, parts: Iterable[Part], hit: Array, exact: bool = False) -> Iterator[Batch]:
        """Yield the pairs that are matches, for the kinds that produce pairs; `hit` is set to True for probe rows with
        one.

        `hit` may hold matches with other build rows from before.
        """
        gives_pairs = self.kind in GIVES_PAIRS
        for probe_rows, build_rows in parts:
            if exact:
                both = self.pair(probe, probe_rows, build_rows)
            else:
                probe_rows, build_rows, both = self._matching(probe, probe_rows, build_rows)
            if self.kind == "single":
                self._refuse_second(probe_rows, hit)
            hit[probe_rows] = True
            if self.kind in MARKS_BUILD:
                self.mark(build_rows)
            if gives_pairs and both.length:
                yield self.project(both)

    def emit_settled(self, probe: Batch, hit: Array) -> Iterator[Batch]:
        """Yield the output for the rows of a probe batch, once all their matches are known."""
        if self.kind == "semi":
            yield self._of_probe(probe, hit)
        elif self.kind in ("anti", "null_anti"):
            yield self._of_probe(probe, ~hit)
        elif self.kind in KEEPS_PROBE and not hit.all():
            alone = probe.select(~hit)
            yield self.project(self.extended(alone, np.full(alone.length, -1)))

    def _of_probe(self, probe: Batch, mask: Array) -> Batch:
        return (probe if mask.all() else probe.select(mask)).project(self._output)

    def _matching(self, probe: Batch, probe_rows: Array, build_rows: Array) -> tuple[Array, Array, Batch]:
        """Return the candidates that are matches; for null_anti those for which the condition is not false."""
        both = self.pair(probe, probe_rows, build_rows)
        if self._condition is None or self._truth is None or not both.length:
            return probe_rows, build_rows, both
        if self.kind == "null_anti":
            false = np.broadcast_to(np.asarray(falsehoods(self._truth(both))), (both.length,))
            kept = np.flatnonzero(~false)
        else:
            kept = self._condition.rows(both)
        if len(kept) == both.length:
            return probe_rows, build_rows, both
        return probe_rows.take(kept), build_rows.take(kept), both.select(kept)

    def _refuse_second(self, probe_rows: Array, hit: Array) -> None:
        if len(probe_rows) and bool(hit[probe_rows].any() or (probe_rows[1:] == probe_rows[:-1]).any()):
            raise CardinalityViolation(
                "a scalar subquery returned more than one row; aggregate it, or add LIMIT 1 if any row will do"
            )

    def mark(self, build_rows: Array) -> None:
        """Mark build rows that have a partner."""
        self._marked[build_rows] = True

    def rest(self, probe_columns: Sequence[Column]) -> Batch:
        """Return the output that is known once all probe rows were processed: for the kinds of `MARKS_BUILD`."""
        marked = self._marked
        rows = self.build.select(marked if self.kind == "right_semi" else ~marked)
        if self.kind in BUILD_ONLY:
            return rows.project([i - self._probe_width for i in self._output])
        nulls = [Const(column.type, None, rows.length) for column in probe_columns]
        return self.project(Batch([*nulls, *rows.slots()], rows.length))


def all_pairs(probe_rows: Array, build_rows: Array) -> Iterator[Part]:
    """Yield every pair, probe row by probe row, in parts of about `PAIRS_AT_ONCE`; each probe row's pairs in one
    part."""
    if not len(probe_rows) or not len(build_rows):
        return
    step = max(1, PAIRS_AT_ONCE // len(build_rows))
    for start in range(0, len(probe_rows), step):
        block = probe_rows[start : start + step]
        yield np.repeat(block, len(build_rows)), np.tile(build_rows, len(block))

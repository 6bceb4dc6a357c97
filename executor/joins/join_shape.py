"""Properties of a hash join that do not depend on the source of its rows: operators below, or a temporary file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...model.lazy_dataclass import dataclass
from ...model.types import BOOLEAN
from ...model.vectors.vector import Batch, Vector
from ...planner.algebra.physical import HashJoin
from ...sql.expressions import Call, Column, Expr, columns_of, conjunction

DROPS_UNMATCHED_PROBE = frozenset(("inner", "semi", "right", "right_semi", "right_anti"))
"""Kinds that drop a probe row without partner: they may filter the probe side's scans."""


@dataclass(frozen=True, slots=True)
class JoinShape:
    """Kind, output, and per side the columns and the keys, as in `planner.algebra.physical.HashJoin`."""

    kind: str
    output: tuple[Column, ...]
    probe: tuple[Column, ...]
    build: tuple[Column, ...]
    probe_keys: tuple[Expr, ...]
    build_keys: tuple[Expr, ...]
    residual: Expr | None

    @property
    def is_simple_not_in(self) -> bool:
        """True for a NOT IN of one key, for which it suffices to know whether the build side has a NULL."""
        return self.kind == "null_anti" and len(self.build_keys) == 1 and self.residual is None

    @property
    def condition(self) -> Expr | None:
        """Condition that is checked on pairs with equal keys; for null_anti the whole condition, as it must check other
        pairs."""
        if self.kind != "null_anti":
            return self.residual
        parts: list[Expr] = [
            Call(BOOLEAN, True, "eq", (probe, build))
            for probe, build in zip(self.probe_keys, self.build_keys, strict=True)
        ]
        return conjunction([*parts, self.residual] if self.residual is not None else parts)


def shape_of(node: HashJoin) -> JoinShape:
    """Shape of a plan node."""
    probe, build = node.probe.columns, node.build.columns
    return JoinShape(node.kind, node.columns, probe, build, node.probe_keys, node.build_keys, node.residual)


@dataclass(frozen=True, slots=True)
class KeptSide:
    """Part of a side that is written: the needed columns, followed by the keys that are not among them.

    Parameters
    ----------
    columns : tuple of Column
        Columns that are written.
    keys : tuple of Column
        The keys' columns among these.
    """

    columns: tuple[Column, ...]
    keys: tuple[Column, ...]
    passing: tuple[int, ...]
    computed: tuple[int, ...]

    @property
    def key_places(self) -> list[int]:
        """Positions of the keys among the columns."""
        places = {column.id: i for i, column in enumerate(self.columns)}
        return [places[key.id] for key in self.keys]

    def kept(self, batch: Batch, keys: Sequence[Vector]) -> Batch:
        """Reduce a batch whose keys are `keys` to the columns that are written."""
        return batch.project(self.passing).append(keys[i] for i in self.computed)


def kept_side(columns: Sequence[Column], keys: Sequence[Expr], needed: frozenset[int], first_id: int) -> KeptSide:
    """Columns to write of a side of which the columns `needed` are needed; computed keys are numbered from
    `first_id`."""
    needed |= {key.id for key in keys if isinstance(key, Column)}
    passing = tuple(i for i, column in enumerate(columns) if column.id in needed)
    computed = tuple(i for i, key in enumerate(keys) if not isinstance(key, Column))
    named = tuple(
        key if isinstance(key, Column) else Column(key.type, True, first_id - i, "key") for i, key in enumerate(keys)
    )
    return KeptSide(
        (*(columns[i] for i in passing), *(named[i] for i in computed)),
        named,
        passing,
        computed,
    )


def kept_shape(shape: JoinShape) -> tuple[JoinShape, KeptSide, KeptSide]:
    """Return the join over the written columns of its sides, and the sides: probe, build."""
    needed = frozenset(column.id for column in shape.output)
    if shape.residual is not None:
        needed |= columns_of(shape.residual)
    probe = kept_side(shape.probe, shape.probe_keys, needed, -1)
    build = kept_side(shape.build, shape.build_keys, needed, -1 - len(shape.probe_keys))
    kept = replace(shape, probe=probe.columns, build=build.columns, probe_keys=probe.keys, build_keys=build.keys)
    return kept, probe, build

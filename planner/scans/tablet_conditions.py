"""Conditions of a scan that leave out tablets although the rows of the others are still tested by them.

A column predicate describes one column, so the partitioner gets too little from a condition on several:

    hash_bucket(4, 0, host) = 2              the rows of one bucket, in any range
    (day, host) >= (DATE '2026-01-01', 'h')  day > ... OR day = ... AND host >= 'h'

Each conjunct of the residual becomes a disjunction of branches, and each branch prunes for itself: a tablet is read if
it may hold rows of a branch of every conjunct. The conditions stay in the residual.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Final

from ...model.predicates import Branch, ColumnPredicate, InBuckets, OneOf
from ...sql.expressions import Call, Column, Expr, InValues, Literal, conjuncts
from ..algebra.physical import TableScan
from ..algebra.trees import disjuncts
from .scan_predicates import extract

HASH_BUCKET: Final = "hash_bucket"
MOST_BRANCHES: Final = 64
"""A condition of more branches leaves out nothing."""


def one_of(scan: TableScan) -> tuple[OneOf, ...]:
    """Conditions of the residual that leave out tablets, for `ScanSpec.one_of`; none for a table of one tablet."""
    if scan.residual is None or scan.table.partitions.tablet_count == 1:
        return ()
    names = {column.id: name for column, name in zip(scan.fetched, scan.names, strict=True)}
    deciding = scan.table.partitions.columns
    found = (_branches(part, names, deciding) for part in conjuncts(scan.residual))
    return tuple(branches for branches in found if branches)


def _branches(condition: Expr, names: Mapping[int, str], deciding: frozenset[str]) -> OneOf:
    """The branches of a condition; none if one of them says nothing of the columns that decide about tablets."""
    result: list[Branch] = []
    for parts in _alternatives(condition):
        branch = tuple(_useful(parts, names, deciding))
        if not branch:
            return ()
        result.append(branch)
    return tuple(result)


def _useful(
    parts: Iterable[Expr], names: Mapping[int, str], deciding: frozenset[str]
) -> Iterable[ColumnPredicate | InBuckets]:
    others: list[Expr] = []
    for part in parts:
        buckets = _buckets(part, names)
        if buckets is None:
            others.append(part)
        else:
            yield buckets
    yield from (predicate for predicate in extract(others, names).predicates if predicate.column in deciding)


def _alternatives(condition: Expr) -> list[list[Expr]]:
    """The disjunctive normal form of a condition's AND and OR; the condition itself if that is too long."""
    if isinstance(condition, Call) and condition.function == "or":
        found = [branch for part in disjuncts(condition) for branch in _alternatives(part)]
    elif isinstance(condition, Call) and condition.function == "and":
        factors = [_alternatives(part) for part in conjuncts(condition)]
        if math.prod(map(len, factors)) > MOST_BRANCHES:
            return [[condition]]
        found = [[part for branch in branches for part in branch] for branches in product(*factors)]
    else:
        return [[condition]]
    return found if len(found) <= MOST_BRANCHES else [[condition]]


def _buckets(condition: Expr, names: Mapping[int, str]) -> InBuckets | None:
    """`hash_bucket(n, seed, columns) = bucket` or `IN (buckets)`; None for any other condition."""
    hashed: Expr
    items: Sequence[Expr]
    if isinstance(condition, Call) and condition.function == "eq":
        left, right = condition.args
        hashed, items = (right, (left,)) if isinstance(left, Literal) else (left, (right,))
    elif isinstance(condition, InValues):
        hashed, items = condition.arg, condition.items
    else:
        return None
    if not isinstance(hashed, Call) or hashed.function != HASH_BUCKET:
        return None
    buckets, seed, *columns = hashed.args
    if not isinstance(buckets, Literal) or not isinstance(seed, Literal):
        return None
    literals = [item for item in items if isinstance(item, Literal)]
    present = [literal for literal in literals if literal.value is not None]
    ids = [column.id for column in columns if isinstance(column, Column)]
    if len(literals) < len(items) or len(ids) < len(columns) or not names.keys() >= set(ids):
        return None
    if not all(literal.type.is_integer for literal in present):
        return None
    chosen = sorted({literal.value for literal in present})
    return InBuckets(tuple(names[id_] for id_ in ids), buckets.value, seed.value, tuple(chosen))

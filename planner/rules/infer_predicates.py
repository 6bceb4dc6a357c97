"""Copy predicates on a column to the columns that equal it.

`t.a = u.b AND t.a > 5` implies `u.b > 5`, which filters u before the join. Predicates on the left of a semi, left or
anti join hold for its partners on the right as well, not vice versa.

>>> from nyala.planner.testing import show
>>> print(show("SELECT t.k FROM t, u WHERE t.a = u.b AND t.a > 5", ["infer_predicates"]))
Project k
  Filter a = b AND a > 5
    Join cross
      Scan t: k, a
      Filter b > 5
        Scan u: b, c
"""

from __future__ import annotations

from dataclasses import replace

from ...sql.expressions import Call, Column, Expr, InValues, Literal, Parameter, conjuncts
from ..algebra.logical import FileScan, Filter, Join, Node, Scan, Sort
from ..algebra.properties import Equivalence
from ..algebra.trees import MIRRORED, all_of, column_equality, column_ids, columns_in, distinct, filtered, substitute
from ..context import Context

TARGETS = {"inner": "both", "cross": "both", "semi": "right", "left": "right", "anti": "right", "single": "right"}
"""Sides of a join on which predicates known above it and in its condition may be used to infer others."""


def infer_predicates(root: Node, context: Context) -> Node:
    """Copy simple predicates to equal columns."""
    return _infer(root, [])


def _infer(node: Node, facts: list[Expr]) -> Node:
    """Infer predicates at a node; `facts` are true for the rows of `node` that matter above."""
    if isinstance(node, Filter):
        known = distinct([*facts, *conjuncts(node.predicate)])
        source = _infer(node.source, known)
        return node if source is node.source else Filter(source, node.predicate)
    if isinstance(node, Join):
        return _infer_join(node, facts)
    if isinstance(node, Sort) and node.limit is None and node.offset is None:
        return node.map_children(lambda child: _infer(child, facts))
    return node.map_children(lambda child: _infer(child, []))


def _infer_join(node: Join, facts: list[Expr]) -> Node:
    left_ids, right_ids = column_ids(node.left), column_ids(node.right)
    conditions = conjuncts(node.condition)
    below = [fact for fact in facts if columns_in(fact) <= left_ids]
    if node.kind in ("inner", "cross"):
        known = [*facts, *conditions, *_known_below(node.left), *_known_below(node.right)]
    else:
        known = [*below, *conditions, *_known_below(node.left)]
    left_facts, right_facts = below, [fact for fact in facts if columns_in(fact) <= right_ids]
    if node.kind in ("inner", "cross", "semi"):
        left_facts = left_facts + [part for part in conditions if columns_in(part) <= left_ids]
    if node.kind == "full":
        left_facts = right_facts = []
    elif node.kind not in ("inner", "cross"):
        right_facts = []
    if node.kind not in ("full", "right", "null_anti"):
        right_facts = right_facts + [part for part in conditions if columns_in(part) <= right_ids]
    left, right = node.left, node.right
    target = TARGETS.get(node.kind)
    if target is not None:
        derived = implied_predicates(known)
        if target == "both":
            left = filtered(left, all_of(_new(derived, left_ids, [*known, *_known_below(left)])))
        right = filtered(right, all_of(_new(derived, right_ids, [*known, *_known_below(right)])))
    left, right = _infer(left, left_facts), _infer(right, right_facts)
    return node if left is node.left and right is node.right else replace(node, left=left, right=right)


def _known_below(node: Node) -> list[Expr]:
    if isinstance(node, Filter):
        return conjuncts(node.predicate) + _known_below(node.source)
    return list(node.predicates) if isinstance(node, (Scan, FileScan)) else []


def _new(derived: list[Expr], side: frozenset[int], known: list[Expr]) -> list[Expr]:
    return [part for part in derived if columns_in(part) <= side and part not in known]


def implied_predicates(known: list[Expr]) -> list[Expr]:
    """Predicates that simple predicates on one column imply for the columns that equal it."""
    pairs = [pair for part in known if (pair := column_equality(part))]
    if not pairs:
        return []
    equal = Equivalence((a.id, b.id) for a, b in pairs)
    columns = {column.id: column for pair in pairs for column in pair}
    implied: list[Expr] = []
    for part in known:
        subject = _subject(part)
        if subject is None or subject.id not in columns:
            continue
        for number in equal.same(subject.id):
            other = columns.get(number)
            if other is not None and number != subject.id and other.type == subject.type:
                implied.append(substitute(part, {subject.id: other}))
    return implied


def _subject(part: Expr) -> Column | None:
    """Return the column of a predicate that compares just one column with constants."""
    if isinstance(part, InValues):
        constant = all(isinstance(item, (Literal, Parameter)) for item in part.items)
        return part.arg if isinstance(part.arg, Column) and constant else None
    if isinstance(part, Call) and part.function in (*MIRRORED, "like"):
        first, second = part.args[0], part.args[-1]
        if isinstance(first, Column) and isinstance(second, (Literal, Parameter)):
            return first
        if isinstance(second, Column) and isinstance(first, (Literal, Parameter)) and part.function != "like":
            return second
    return None

"""Translates joins of all kinds.

inner cross left right full semi anti    Spark's own
null_anti    LEFT ANTI JOIN ON keys AND (condition OR condition IS NULL): a single equality of that form is executed
             by Spark as its null-aware hash join
single       the right side grouped by its keys with a count, which is checked after a LEFT JOIN; if the condition
             is more than equalities, the matches of each left row are counted after the join
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from ....planner.algebra.logical import Join
from ....sql.expressions import Call, Column, Expr, columns_of, conjuncts
from . import expressions
from .block import Aliases, Block
from .tree import Tree, again, both, call, column, either, error, infix, is_null, named, not_supported, number

HINTS = {
    "broadcast": "BROADCAST",
    "shuffle_hash": "SHUFFLE_HASH",
    "merge": "MERGE",
    "nested_loop": "SHUFFLE_REPLICATE_NL",
}
"""Strategies of a hint, `<strategy> <left or right>`, and Spark's names for them."""

_KINDS = {
    "inner": {"kind": "INNER"},
    "cross": {"kind": "CROSS"},
    "left": {"side": "LEFT"},
    "right": {"side": "RIGHT"},
    "full": {"side": "FULL"},
    "semi": {"side": "LEFT", "kind": "SEMI"},
    "anti": {"side": "LEFT", "kind": "ANTI"},
    "null_anti": {"side": "LEFT", "kind": "ANTI"},
}
_ONE_ROW = "a subquery used as a value has more than one row"


def joined(node: Join, left: Block, right: Block, hint: str | None, aliases: Aliases) -> Block:
    """The rows of a join."""
    right = _without_repeated(node, left, right, aliases)
    if node.kind == "single":
        return _single(node, left, right, hint, aliases)
    on = None if node.condition is None else expressions.write(node.condition)
    if node.kind == "null_anti":
        on = _null_aware(node.condition)
    return _joined(node.kind, _shown(node, left, right), left, right, on, hint, aliases)


def _without_repeated(node: Join, left: Block, right: Block, aliases: Aliases) -> Block:
    """The right side without columns that the left side has too.

    An expression with a subquery that occurs twice in a statement brings the subquery's columns twice, with equal
    values.
    """
    known = {of.id for of in left.columns}
    kept = tuple(of for of in right.columns if of.id not in known)
    if len(kept) == len(right.columns):
        return right
    read = columns_of(node.condition) if node.condition is not None else frozenset()
    if any(of.id in known and of.id in read for of in right.columns):
        raise not_supported("a join by a column that both sides have")
    return Block(kept, finished=aliases.opened(right).selecting([column(of) for of in kept]))


def _shown(node: Join, left: Block, right: Block) -> tuple[Column, ...]:
    """The output columns of a join of these sides."""
    return left.columns if node.kind in ("semi", "anti", "null_anti") else left.columns + right.columns


def _joined(
    kind: str, columns: Sequence[Column], left: Block, right: Block, on: Tree | None, hint: str | None, aliases: Aliases
) -> Block:
    left = _left_side(kind, left, hint, aliases)
    relation, alias = aliases.relation(right)
    if kind in ("inner", "cross"):
        kind = "cross" if on is None else "inner"
    elif on is None:
        on = exp.true()
    join = exp.Join(this=relation, on=on, **_KINDS[kind])
    hints = left.hints
    if hint is not None:
        strategy, side = hint.split()
        assert left.source is not None
        hints = (*hints, call(HINTS[strategy], exp.column(alias if side == "right" else left.source.alias)))
    return replace(left, columns=tuple(columns), joins=(*left.joins, join), hints=hints)


def _left_side(kind: str, left: Block, hint: str | None, aliases: Aliases) -> Block:
    """The left side in a form to which a join can be added.

    Its filters must not be evaluated after an outer join that fills its columns with NULLs. A hint needs one alias for
    all of it.
    """
    if not left.is_open:
        return aliases.nested(left)
    filtered = left.where and kind in ("right", "full")
    named_side = hint is not None and hint.endswith("left") and not left.is_relation
    return aliases.nested(left) if filtered or named_side else left


def _null_aware(condition: Expr | None) -> Tree:
    """The condition, true also if it is NULL; parts that are never NULL are kept separate, as keys of a join."""
    parts = conjuncts(condition)
    sure = [expressions.write(part) for part in parts if not part.nullable]
    doubtful = [expressions.write(part) for part in parts if part.nullable]
    if doubtful:
        whole = both(*doubtful)
        sure.append(either(whole, is_null(again(whole))))
    return both(*sure)


# ---- at most one partner ---------------------------------------------------------------------------------------------


def _single(node: Join, left: Block, right: Block, hint: str | None, aliases: Aliases) -> Block:
    keys = _right_keys(node)
    if keys is None:
        return _counted_behind(node, left, right, hint, aliases)
    right = aliases.opened(right)
    partners = aliases.next()
    items = [named(call("first", column(of)), of.id) for of in right.columns]
    grouped = right.selecting([*items, exp.alias_(call("count", exp.Star()), partners)])
    if keys:
        grouped = grouped.group_by(*(expressions.write(key) for key in keys), copy=False)
    counted = aliases.nested(Block(right.columns, finished=grouped))
    on = None if node.condition is None else expressions.write(node.condition)
    joined_rows = _joined("left", left.columns + right.columns, left, counted, on, hint, aliases)
    return joined_rows.filtered(_at_most_one(exp.column(partners)))


def _right_keys(node: Join) -> list[Expr] | None:
    """The right side's expressions in the equalities of the condition; None if it has other parts."""
    left = {of.id for of in node.left.columns}
    right = {of.id for of in node.right.columns}
    keys: list[Expr] = []
    for part in conjuncts(node.condition):
        if not (isinstance(part, Call) and part.function == "eq"):
            return None
        for one, other in (part.args, part.args[::-1]):
            if columns_of(one) <= left and columns_of(other) <= right and columns_of(other):
                keys.append(other)
                break
        else:
            return None
    return keys


def _counted_behind(node: Join, left: Block, right: Block, hint: str | None, aliases: Aliases) -> Block:
    """Numbers the left rows and counts the matches of each."""
    row, partners = aliases.next(), aliases.next()
    numbered = aliases.opened(left).selecting(
        [*(column(of) for of in left.columns), exp.alias_(call("monotonically_increasing_id"), row)]
    )
    left = aliases.nested(Block(left.columns, finished=numbered))
    on = None if node.condition is None else expressions.write(node.condition)
    joined_rows = _joined("left", left.columns + right.columns, left, right, on, hint, aliases)
    over = exp.Window(this=call("count", exp.Star()), partition_by=[exp.column(row)])
    counted = joined_rows.selecting([*(column(of) for of in joined_rows.columns), exp.alias_(over, partners)])
    whole = aliases.nested(Block(joined_rows.columns, finished=counted))
    return whole.filtered(_at_most_one(exp.column(partners)))


def _at_most_one(count: Tree) -> Tree:
    """TRUE, or an error; TRUE also for NULL, which means no match."""
    return call("if", infix(exp.GT, count, number(1)), error(_ONE_ROW, "BOOLEAN"), exp.true())


def one_row(columns: Sequence[Column], source: Block, aliases: Aliases) -> Block:
    """Exactly one row: that of the source, or NULLs; an error if it has more than one."""
    rows = aliases.next()
    items = [named(call("first", column(of)), of.id) for of in source.columns]
    counted = aliases.opened(source).selecting([*items, exp.alias_(call("count", exp.Star()), rows)])
    whole = aliases.nested(Block(source.columns, finished=counted))
    return whole.filtered(_at_most_one(exp.column(rows)))

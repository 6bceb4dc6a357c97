"""Makes a failing query small: drops clauses, items and operands for as long as it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import sqlglot
from sqlglot import exp

OPTIONAL = ("where", "having", "order", "limit", "offset", "distinct", "with_")


def reduce(text: str, fails: Callable[[str], bool], budget: int = 400) -> str:
    """The smallest query found that still `fails`, in at most `budget` tries."""
    try:
        tree = sqlglot.parse_one(text, dialect="duckdb")
    except RecursionError:  # of sqlglot's parser, in a query that is nested deeply on purpose
        return text
    changed = True
    while changed and budget > 0:
        changed = False
        for candidate in _smaller(tree):
            budget -= 1
            if budget <= 0:
                break
            smaller = candidate.sql(dialect="duckdb")
            if len(smaller) < len(tree.sql(dialect="duckdb")) and fails(smaller):
                tree, changed = candidate, True
                break
    return str(tree.sql(dialect="duckdb"))


def _smaller(tree: exp.Expression) -> Iterator[exp.Expression]:
    """Copies of the tree with one thing less."""
    for place, node in enumerate(tree.walk()):
        for name in OPTIONAL:
            if node.args.get(name) is not None:
                yield _edited(tree, place, lambda n, name=name: n.set(name, None))
        for name in ("joins", "expressions"):
            found = node.args.get(name)
            if isinstance(found, list) and (len(found) > 1 or name == "joins"):
                for i in range(len(found)):
                    yield _edited(tree, place, lambda n, name=name, i=i: n.args[name].pop(i))
        for child in (node.args.get("this"), node.args.get("expression")):
            if (
                isinstance(node, exp.Binary | exp.Paren | exp.Not | exp.Coalesce | exp.SetOperation)
                and child is not None
            ):
                if node.parent is None:
                    yield child.copy()
                else:
                    key = "this" if child is node.args.get("this") else "expression"
                    yield _edited(tree, place, lambda n, key=key: n.replace(n.args[key].copy()))


def _edited(tree: exp.Expression, place: int, edit: Callable[[exp.Expression], object]) -> exp.Expression:
    copy = tree.copy()
    for number, node in enumerate(copy.walk()):
        if number == place:
            edit(node)
            break
    return copy

"""A physical plan as a list of operators with their measurements: for tables and pages, which draw it themselves."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Final

from ...model.lazy_dataclass import dataclass
from ..algebra import physical
from ..algebra.physical import PhysicalNode
from ..query_plan import Plan
from .plan_text import Actual, Drawing, drawing_of, input_roles

MOST_OPERATORS: Final = 200
"""Operators of a plan that are listed; its outermost ones."""
TEXT_CHARACTERS: Final = 500
"""Of each text, beyond which it is cut: a condition may have thousands of values."""


@dataclass(frozen=True, slots=True)
class OperatorLine:
    """An operator of a plan, as EXPLAIN ANALYZE shows it.

    Attributes
    ----------
    depth : int
        Number of operators above it.
    text : str
        Its own line, with its role in a join.
    details : tuple of str
        The lines below it.
    expected_rows : int
    actual : Actual or None
        None if it has not run.
    """

    depth: int
    text: str
    details: tuple[str, ...]
    expected_rows: int
    actual: Actual | None


def operator_lines(plan: Plan, actuals: Mapping[int, Actual]) -> tuple[OperatorLine, ...]:
    """The operators of a plan, each before its inputs; a shared subplan at its first use.

    Parameters
    ----------
    plan : Plan
    actuals : mapping of int to Actual
        By number of the physical node.
    """
    found: list[OperatorLine] = []
    for line in _lines(plan.root, drawing_of(plan.root, actuals), 0, ""):
        found.append(line)
        if len(found) == MOST_OPERATORS:
            break
    return tuple(found)


def _lines(node: PhysicalNode, drawing: Drawing, depth: int, label: str) -> Iterator[OperatorLine]:
    text = f"{label}{drawing.head(node)}"
    details = tuple(_cut(detail) for detail in drawing.details(node))
    yield OperatorLine(depth, _cut(text), details, max(0, round(node.estimate)), drawing.actual(node))
    if isinstance(node, physical.Shared) and not drawing.first_use(node):
        return
    for role, child in zip(input_roles(node), node.children(), strict=True):
        yield from _lines(child, drawing, depth + 1, f"{role}: " if role else "")


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_CHARACTERS else f"{text[:TEXT_CHARACTERS]} ..."


def plan_digest(plan: Plan) -> str:
    """16 hexadecimal digits that plans of equal operators over equal tables share, whatever their literals are."""
    digest = hashlib.blake2b(digest_size=8)
    for node in physical.nodes(plan.root):
        digest.update(type(node).__name__.encode())
        if isinstance(node, physical.TableScan):
            digest.update(f" {node.table.name}".encode())
        elif isinstance(node, physical.HashJoin | physical.MergeJoin | physical.NestedLoopJoin):
            digest.update(f" {node.kind}".encode())
        digest.update(f" {len(node.children())}\n".encode())
    return digest.hexdigest()

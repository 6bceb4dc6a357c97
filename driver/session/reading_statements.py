"""Which statements change nothing in the store."""

from __future__ import annotations

from typing import Final

from ...sql import bound
from .settings import SettingStatement

READING: Final = (
    bound.SelectStatement
    | bound.CopyTo
    | bound.ShowTables
    | bound.ShowFunctions
    | bound.ShowSchemas
    | bound.ShowStats
    | bound.ShowPartitions
    | bound.ShowCreateTable
    | bound.Describe
    | bound.DescribeView
    | bound.ShowGrants
    | bound.ShowRoles
    | SettingStatement
)
"""The statements that change nothing in the store; and EXPLAIN, unless it runs one that does."""
BY_ROWS: Final = bound.InsertStatement | bound.MergeStatement | bound.ChangeStatement | bound.CopyFrom
"""Statements that have changed something exactly where they have changed rows."""


def is_reading(statement: bound.Statement) -> bool:
    """True if a statement changes no row and no table."""
    if isinstance(statement, bound.Explain):
        return not statement.analyze or is_reading(statement.statement)
    return isinstance(statement, READING | bound.TransactionStatement | bound.SessionStatement | bound.SetRole)

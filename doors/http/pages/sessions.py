"""Sessions of SQL and their transactions; transactions of a tablet server that have no outcome yet."""

from __future__ import annotations

from typing import Any

from ....driver.session.statement_records import records
from ....model.clock import format_timestamp
from ..request import Request
from .frame import Page
from .html import Right, duration, join, table


def sessions(request: Request) -> Page:
    """The page "/sessions"."""
    found: list[Any] = records().sessions()
    rows = [
        (
            session.facts.user,
            session.client or "this process",
            session.activity.by_row + session.activity.planned,
            len(session.executions()),
            sum(session.activity.errors.values()),
            "open" if session.transactions.is_open else "none",
        )
        for session in found
    ]
    prepared = [
        (report.tablet_id, report.prepared, duration(report.prepared_seconds))
        for report in request.subject.reports() or ()
        if report.prepared
    ]
    return "Sessions", join(
        [
            table("Sessions", ("User", "Client", "Statements", "Running", "Errors", "Transaction"), rows),
            table(
                "Open transactions",
                ("User", "Client", "Snapshot", "Has writes"),
                [row for session in found if (row := _transaction(session)) is not None],
                "No transaction is open.",
            ),
            table(
                "Prepared transactions of this server",
                ("Tablet", "Without an outcome", "Oldest"),
                prepared,
                "Every transaction has an outcome.",
            ),
        ]
    )


def _transaction(session: Any) -> tuple[object, ...] | None:
    transaction = session.transactions.transaction
    if transaction is None or not transaction.is_open:
        return None
    snapshot = Right(format_timestamp(transaction.snapshot))
    return session.facts.user, session.client or "this process", snapshot, transaction.has_writes

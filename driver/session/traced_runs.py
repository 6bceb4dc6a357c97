"""Statements with spans: `Session.run` while an exporter is configured (`model.tracing`)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Protocol, TypeAlias

from ...model import tracing
from ...model.store import Store
from ...model.waiting_time import as_statement
from .bind_values import Normalized
from .executions import Execution, Halt
from .statement_records import Watched, sqlstate_of


class Traced(Watched, Protocol):
    """A `Session`."""

    store: Store


Run: TypeAlias = Callable[[str, Normalized | None, Halt], Execution]


def run_traced(
    exporter: tracing.Tracing, session: Traced, run: Run, text: str, parameters: Normalized | None, halt: Halt
) -> Execution:
    """Runs a text of a session by `run`, with a span: until its last statement has ended, or has failed."""
    with as_statement() if session.store.runs_fragments else contextlib.nullcontext():
        trace = exporter.statement(text, session.facts.user, session.client)
        try:
            with tracing.within(trace):
                execution = run(text, parameters, halt)
        except BaseException as error:
            trace.end(sqlstate=sqlstate_of(error))
            raise
    if (record := execution.record) is None:
        trace.end(execution.rows_so_far)  # it has ended already
    else:
        record.trace = trace
    return execution

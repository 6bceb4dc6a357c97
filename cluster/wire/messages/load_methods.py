"""Methods for bulk loads; only the embedded server has them (`cluster.embedded_server.loads`).

The client names a load and numbers its messages, so each request may be sent twice.
"""

from __future__ import annotations

from .methods import Call, Done, Request, WriteReply


class StartLoad(Request, frozen=True, tag="start_load"):
    """Begins a bulk load of a table. `load_id` is the client's name for it."""

    reply = Done
    load_id: str
    table_id: str


class LoadRows(Request, frozen=True, tag="load_rows"):
    """Rows of a load: one record batch as an Arrow IPC stream. `number` counts a load's messages from 1."""

    reply = Done
    load_id: str
    number: int
    rows: bytes


class FinishLoad(Request, frozen=True, tag="finish_load"):
    """Makes all rows of a load visible, after this number of messages."""

    reply = WriteReply
    load_id: str
    messages: int
    call: Call | None


class AbandonLoad(Request, frozen=True, tag="abandon_load"):
    """Abandons a load."""

    reply = Done
    load_id: str

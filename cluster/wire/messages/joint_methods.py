"""Writes to a whole table as methods: only the owner of a directory has them (`cluster.embedded_server.joint_writes`).

A batch that fits into one message is one `WriteTable`. Of a larger one all but the last piece go ahead as `StageRows`,
which the owner keeps in memory; they are written when the `WriteTable` comes that names them, with its own rows behind
them, as one batch. A batch is named by its client, and its pieces are numbered, so each request may be sent twice.
"""

from __future__ import annotations

from .methods import Call, Done, Reply, Request, Write, WrittenRow


class StageRows(Request, frozen=True, tag="stage_rows"):
    """A piece of a batch that a `WriteTable` will write. `number` counts its pieces from 1. Of `piece` the rows, ops
    and `isset` count."""

    reply = Done
    batch_id: str
    number: int
    piece: Write


class TableWritten(Reply, frozen=True):
    """As `WriteReply`. `refused` is the number of rows that were refused; `errors` may be some of them: the same
    request with `errors_from` set to their number brings the next."""

    applied: int
    timestamp: int
    errors: tuple[WrittenRow, ...] = ()
    refused: int = 0


class WriteTable(Request, frozen=True, tag="write_table"):
    """Apply a batch to a table, all or nothing, however many tablets its rows go to. `piece` is its last piece, or all
    of it; its tablet does not count. `batch_id`, `staged`: the name of the batch, and how many pieces were staged."""

    reply = TableWritten
    table_id: str
    piece: Write
    call: Call | None
    batch_id: str = ""
    staged: int = 0
    errors_from: int = 0


class DropStaged(Request, frozen=True, tag="drop_staged"):
    """Forget the staged pieces of a batch; done where there are none."""

    reply = Done
    batch_id: str

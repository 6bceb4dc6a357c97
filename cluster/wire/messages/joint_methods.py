"""Methods for writes to whole tables; only the embedded server has them (`cluster.embedded_server.joint_writes`).

A batch that fits into one message is one `WriteTable`. Of a larger one, all but the last piece are sent before as
`StageRows`, which the server keeps in memory. The `WriteTable` that names them has the last rows, and writes all of
them as one batch. The client names a batch and numbers its pieces, so each request may be sent twice.

A transaction is one `CommitTransaction`. If its rows fit into it, it has them; otherwise all pieces of all its batches
are staged before.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from .methods import Call, Done, Reply, Request, Write, WriteReply, WrittenRow


class StageRows(Request, frozen=True, tag="stage_rows"):
    """A piece of a batch for a later `WriteTable`. `number` counts its pieces from 1. Of `piece` the rows, ops and
    `isset` are used."""

    reply = Done
    batch_id: str
    number: int
    piece: Write


class TableWritten(Reply, frozen=True):
    """As `WriteReply`. `refused` is the number of refused rows; `errors` may be some of them: the same request with
    `errors_from` set to their number returns the next."""

    applied: int
    timestamp: int
    errors: tuple[WrittenRow, ...] = ()
    refused: int = 0


class WriteTable(Request, frozen=True, tag="write_table"):
    """Applies a batch to a table, all or nothing, over any number of tablets. `piece` is its last piece, or all of it;
    its tablet is ignored. `batch_id`, `staged`: the name of the batch, and the number of staged pieces."""

    reply = TableWritten
    table_id: str
    piece: Write
    call: Call | None
    batch_id: str = ""
    staged: int = 0
    errors_from: int = 0


class DropStaged(Request, frozen=True, tag="drop_staged"):
    """Drops the staged pieces of a batch. No-op if there are none."""

    reply = Done
    batch_id: str


class CommittedBatch(Struct, frozen=True):
    """The rows of a transaction for one table: `piece`, or the staged pieces of a batch, `staged` of them."""

    table_id: str
    schema_version: int
    piece: Write | None = None
    batch_id: str = ""
    staged: int = 0


class ValidatedRead(Struct, frozen=True):
    """As `model.transactions.TableRead`: predicates as a plain map (`plain.predicates_to_plain`), keys as an Arrow IPC
    stream."""

    table_id: str
    schema_version: int
    predicates: dict[str, Any]
    keys: bytes | None = None


class CommitTransaction(Request, frozen=True, tag="commit_transaction"):
    """Applies the changes of a transaction, all at one timestamp or nothing (`Store.commit_transaction`)."""

    reply = WriteReply
    snapshot: int
    writes: tuple[CommittedBatch, ...]
    reads: tuple[ValidatedRead, ...]
    call: Call | None

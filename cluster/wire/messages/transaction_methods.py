"""Methods for transactions over several tablets of a cluster: two-phase commit without a coordinator of its own.

    client                    tablet A, which decides       tablet B
      PrepareWrite   ──────►  PREPARE entry
      PrepareWrite   ────────────────────────────────────►  PREPARE entry
      Decide         ──────►  RESOLVE entry: the outcome
      Resolve        ────────────────────────────────────►  RESOLVE entry

The commit timestamp is the greatest prepare timestamp. The client proposes one, a little ahead of every clock that it
knows, so that as a rule all tablets prepare at the same; a leader whose clock has passed it takes a later one. The
first RESOLVE entry at A is the outcome. A leader that has held a prepared write for too long requests A to decide that
the transaction is aborted, and resolves by the reply.

The rows of a part that is too large for one message come before, in StageWrite requests; its PrepareWrite has none.
"""

from __future__ import annotations

from .methods import Done, Reply, Request, Write


class NumbersReply(Reply, frozen=True):
    """`first`: the first of the numbers."""

    first: int


class TakeNumbers(Request, frozen=True, tag="take_numbers"):
    """Reserves `count` numbers for hidden keys of rows that a transaction inserts, at the leader. A later leader may
    reserve numbers again that were not written: of two such transactions, the later COMMIT is a conflict."""

    reply = NumbersReply
    tablet_id: str
    count: int


class PrepareReply(Reply, frozen=True):
    """`timestamp`: that of the prepared write."""

    timestamp: int


class PrepareWrite(Request, frozen=True, tag="prepare_write"):
    """Prepares a tablet's part of a transaction, at its leader. `part` is its rows (`all_or_none`, `unchanged_since`:
    the snapshot); its `call` is not used. `timestamp`: the proposed one. Idempotent by `transaction`. Raises
    `SerializationFailure` for a conflict. `staged`: number of StageWrite requests that have had the rows; 0: `part` has
    them. `seconds`: for which the part may stay prepared before its leader requests the outcome."""

    reply = PrepareReply
    is_small = True
    transaction: str
    timestamp: int
    part: Write
    decider_table: str
    decider_tablet: str
    forgotten: tuple[str, ...] = ()
    staged: int = 0
    seconds: float = 0.0


class StageWrite(Request, frozen=True, tag="stage_write"):
    """Logs some rows of a tablet's part of a transaction, at its leader: `part` as of `PrepareWrite`, `number` from 0.
    Idempotent by `transaction` and `number`. Raises `SerializationFailure` for a conflict, `WriteTooLarge` if the rows
    of the part take too much memory."""

    reply = Done
    transaction: str
    number: int
    part: Write
    decider_table: str
    decider_tablet: str


class DecideReply(Reply, frozen=True):
    """The outcome: the commit timestamp, 0 if the transaction is aborted."""

    timestamp: int


class Decide(Request, frozen=True, tag="decide"):
    """Decides a transaction, at the leader of the tablet that decides: committed at `timestamp` if that is not 0, and
    if its part there is prepared. Returns the first outcome."""

    reply = DecideReply
    is_small = True
    tablet_id: str
    transaction: str
    timestamp: int


class Resolve(Request, frozen=True, tag="resolve"):
    """Ends a tablet's part of a transaction with its outcome, as in `DecideReply`, at the leader. No-op if it has
    ended."""

    reply = Done
    is_small = True
    tablet_id: str
    transaction: str
    timestamp: int

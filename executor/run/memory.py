"""Memory accounting for one statement's state: the bytes that each operator holds, and which operator must spill.

    limit ──┬── one half: an equal guarantee for every operator that keeps rows
            └── the other half: first come, first served, until released

Operators that keep rows (hash tables, groups, sorts, windows, shared rows) *grow* an account before they keep more. If
an account cannot grow, its operator spills (`spilling`), keeps less and *shrinks* the account. Because every operator
has its guarantee, one that starts late still has room to work in. State that cannot be spilled is *held*: the statement
fails if that exceeds the limit.

Batches in flight, a few per thread, belong to no operator's state and are not counted.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

from ...errors import OperationalError
from ...model.lazy_dataclass import dataclass
from ...storage.files.os_filesystem import machine_memory

SHARE_OF_MACHINE: Final = 0.6
"""Default limit of a statement, as a share of the machine's memory, or of its container's."""


def default_limit() -> int | None:
    """Default limit in bytes of a statement's state; None if the machine's size is unknown."""
    try:
        size = machine_memory()
    except (AttributeError, OSError, ValueError):
        return None
    return int(size * SHARE_OF_MACHINE) >> 20 << 20 if size > 0 else None


class Memory:
    """The limit of one execution and what is held under it. Threads share it.

    Parameters
    ----------
    limit : int, optional
        Bytes; None: no limit.
    holders : int
        Number of operators of the plan that keep rows.

    Attributes
    ----------
    held, peak : int
        Bytes that all accounts hold together, currently and at most.
    """

    def __init__(self, limit: int | None, holders: int = 1):
        self.limit = limit
        self.guarantee = 0 if limit is None else limit // (2 * max(1, holders))
        self._common = 0 if limit is None else limit - self.guarantee * max(1, holders)
        self.held = 0
        self.peak = 0
        self._taken = 0
        """Bytes in use of the common half."""
        self._lock = threading.Lock()
        self._left: deque[int] = deque()
        """Bytes held by accounts that have been collected. They may be collected at any time, so they only append
        here."""

    def account(self, what: str) -> Account:
        """Make a new account; `what` names its operator in errors: "a sort"."""
        return Account(self, what)

    def move(self, account: Account, size: int, must: bool) -> bool:
        """Change an account by `size` bytes, positive or negative; return False, without a change, if there is no
        room."""
        with self._lock:
            while self._left:
                left = self._left.popleft()
                self.held -= left
                self._taken -= max(0, left - self.guarantee)
            before, after = (max(0, held - self.guarantee) for held in (account.size, account.size + size))
            if self.limit is not None and size > 0 and self._taken + after - before > self._common and not must:
                return False
            self._taken += after - before
            account.size += size
            self.held += size
            self.peak = max(self.peak, self.held)
            account.usage.peak = max(account.usage.peak, account.size)
            return True

    def note_collected(self, account: Account) -> None:
        """Record that an account was collected."""
        if account.size:
            self._left.append(account.size)


@dataclass(slots=True)
class Usage:
    """Statistics that outlive an account: `peak`, the most bytes that it held."""

    peak: int = 0


class Account:
    """Bytes held by one operator, until the account is collected with its operator."""

    def __init__(self, memory: Memory, what: str):
        self._memory = memory
        self._what = what
        self.size = 0
        self.usage = Usage()

    def __del__(self) -> None:
        self._memory.note_collected(self)

    @property
    def room(self) -> int | None:
        """Bytes that an operator may hold at least, whatever the others hold; None: there is no limit."""
        return None if self._memory.limit is None else max(0, self._memory.guarantee - self.size)

    def grow(self, size: int) -> bool:
        """Hold `size` bytes more if there is room; else return False, and the operator must spill or manage without."""
        return self._memory.move(self, size, must=False)

    def hold(self, size: int) -> None:
        """Hold `size` bytes more, which cannot be spilled; raises `OperationalError` if they exceed the limit."""
        if not self._memory.move(self, size, must=False):
            from ...planner.explaining.plan_text import readable_size

            limit = self._memory.limit or 0
            raise OperationalError(
                f"{self._what} needs {readable_size(self.size + size)} that cannot be spilled, and memory_limit is "
                f"{readable_size(limit)} for the whole statement; raise the limit or let the statement read fewer rows "
                "or columns"
            )

    def shrink(self, size: int | None = None) -> None:
        """Release `size` bytes; by default all of them."""
        self._memory.move(self, -(self.size if size is None else size), must=True)

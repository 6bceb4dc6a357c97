"""Execution of a planned rebalance: several moves at a time, with a line about each, until the end.

A move mostly waits: for the copy, for a report to the master, for the configuration. Moves of one tablet run one after
the other, in the order of the plan; a server takes part in `PER_SERVER` moves at once, as in Kudu's rebalancer (there
5). A failed move does not affect the others: it is reported, and counted at the end.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from ...errors import Error
from ...model.lazy_dataclass import dataclass
from .rebalance import Move

AT_ONCE = 16
PER_SERVER = 4


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed move, and its error."""

    move: Move
    error: Error


class MoveRun:
    """Executes moves.

    Parameters
    ----------
    work : callable
        Executes one move, and returns when it is done.
    say : callable
        Called with a line at the beginning and the end of each move, by one thread at a time.
    describe : callable
        Returns the description of a move.
    at_once : int
        Most concurrent moves, of all servers.
    """

    def __init__(
        self,
        work: Callable[[Move], object],
        say: Callable[[str], object],
        describe: Callable[[Move], str],
        at_once: int = AT_ONCE,
    ):
        self._work = work
        self._say = say
        self._describe = describe
        self._at_once = at_once
        self._changed = threading.Condition()
        """Guards the following attributes, and notifies of their changes."""
        self._waiting: list[tuple[int, Move]] = []
        self._tablets: set[str] = set()
        self._servers: Counter[str] = Counter()
        self._ended = 0
        self._failures: list[Failure] = []

    def run(self, moves: Sequence[Move]) -> list[Failure]:
        """Executes all moves; returns those that failed. An interrupt begins no others, and waits for running ones."""
        self._waiting = list(enumerate(moves, 1))
        total = len(moves)
        workers = min(self._at_once, total)
        if not workers:
            return []
        with ThreadPoolExecutor(workers, "nyala-rebalance") as pool:
            try:
                for future in [pool.submit(self._drain, total) for _ in range(workers)]:
                    future.result()
            except BaseException:
                with self._changed:
                    self._waiting.clear()
                    self._changed.notify_all()
                raise
        return self._failures

    def _drain(self, total: int) -> None:
        while (taken := self._take()) is not None:
            number, move = taken
            began = time.monotonic()
            with self._changed:
                self._say(f"{number}/{total}  {self._describe(move)}")
            failure: Error | None = None
            try:
                self._work(move)
            except Error as error:
                failure = error
            finally:
                self._give_back(move)
            seconds = time.monotonic() - began
            with self._changed:
                self._ended += 1
                how = f"done in {seconds:.1f} s" if failure is None else f"failed after {seconds:.1f} s: {failure}"
                if failure is not None:
                    self._failures.append(Failure(move, failure))
                self._say(f"{number}/{total}  {how}; {total - self._ended} left")

    def _take(self) -> tuple[int, Move] | None:
        """Returns the first move that may begin; waits for one, None if none is left."""
        with self._changed:
            while self._waiting:
                seen: set[str] = set(self._tablets)
                for place, (number, move) in enumerate(self._waiting):
                    busy = max(self._servers[move.source], self._servers[move.target]) >= PER_SERVER
                    if not busy and move.tablet not in seen:
                        del self._waiting[place]
                        self._tablets.add(move.tablet)
                        self._servers.update((move.source, move.target))
                        return number, move
                    seen.add(move.tablet)  # its later moves come after this one
                self._changed.wait()
            return None

    def _give_back(self, move: Move) -> None:
        with self._changed:
            self._tablets.discard(move.tablet)
            self._servers.subtract((move.source, move.target))
            self._changed.notify_all()

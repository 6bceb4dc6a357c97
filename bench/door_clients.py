"""Clients of `bench.doors`, each in a process of its own: statements on single rows for some seconds."""

from __future__ import annotations

import itertools
import multiprocessing
import random
import time
from multiprocessing.synchronize import Barrier
from typing import Any, Final

from ..model.lazy_dataclass import dataclass

LOOK_UP: Final = "SELECT big, price FROM points WHERE k = %s"
INSERT: Final = "INSERT INTO written VALUES (%s, %s, %s, %s)"
_WARM_UP: Final = 200
_PATIENCE: Final = 120.0
"""Seconds that clients wait for each other."""


@dataclass(frozen=True, slots=True)
class Work:
    """Statements of all clients together.

    Attributes
    ----------
    dsn : str
    step : {"look up", "insert"}
    rows : int
        Of the table of look-ups, with the keys from 0.
    seconds : float
    """

    dsn: str
    step: str
    rows: int
    seconds: float


def per_second(work: Work, clients: int) -> tuple[float, float]:
    """Statements per second of `clients` processes in total, and the processor seconds of the clients for each."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(clients)
    first = time.time_ns() // 1000 % (1 << 31)
    with context.Pool(clients, _begin, (barrier,)) as pool:
        found = pool.starmap(_run, [(work, number, first) for number in range(clients)], chunksize=1)
    statements = sum(count for count, _, _ in found)
    return sum(count / seconds for count, seconds, _ in found), sum(cpu for _, _, cpu in found) / max(1, statements)


_barriers: list[Barrier] = []


def _begin(barrier: Barrier) -> None:
    _barriers.append(barrier)


def _run(work: Work, number: int, first: int) -> tuple[int, float, float]:
    """Number of statements, seconds, processor seconds."""
    from .postgres import connect

    values = _values(work, number, first)
    text = LOOK_UP if work.step == "look up" else INSERT
    with (
        connect(work.dsn, autocommit=True, prepare_threshold=0) as connection,
        connection.cursor(binary=True) as cursor,
    ):
        for _ in range(_WARM_UP):
            cursor.execute(text, next(values))
        _barriers[0].wait(_PATIENCE)
        count, began, cpu = 0, time.perf_counter(), time.process_time()
        while (seconds := time.perf_counter() - began) < work.seconds:
            cursor.execute(text, next(values))
            count += 1
        return count, seconds, time.process_time() - cpu


def _values(work: Work, number: int, first: int) -> Any:
    if work.step == "look up":
        rng = random.Random(number)
        return ((rng.randrange(work.rows),) for _ in itertools.count())
    # Keys that neither another client nor an earlier round has.
    keys = itertools.count((first << 32) + (number << 28))
    return ((key, key, 0.5, 7) for key in keys)

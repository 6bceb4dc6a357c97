"""Engines, workloads and results."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias

from ...model.lazy_dataclass import dataclass

Row: TypeAlias = tuple[Any, ...]


class Client(Protocol):
    """One connection of an engine. For one thread."""

    def execute(self, text: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Run a statement with `?` as placeholder, inside the transaction; return its rows."""

    def transact(self, work: Callable[[Client], None]) -> int:
        """Call `work` in a transaction and commit it, again after each conflict; return the number of conflicts.
        `Rollback` from `work` rolls back."""

    def insert(self, table: str, rows: Sequence[Row]) -> None:
        """Insert rows of all columns, outside of the measured time."""

    def close(self) -> None:
        """Close the connection."""


class Engine(Protocol):
    """An engine on a directory of its own."""

    name: ClassVar[str]

    @staticmethod
    def missing() -> str | None:
        """Reason why it is not available."""

    def __init__(self, home: Path, durability: str) -> None: ...

    def client(self) -> Client:
        """A new connection."""

    def version(self) -> str:
        """Name and version."""

    def close(self) -> None:
        """Stop it."""


class Rollback(Exception):
    """The transaction is to be rolled back, as TPC-C requires of one in a hundred New-Orders."""


class Workload(Protocol):
    """A kind of transaction."""

    name: ClassVar[str]
    title: ClassVar[str]

    def tables(self) -> Sequence[str]:
        """CREATE TABLE statements, in SQL that all engines accept."""

    def load(self, client: Client) -> None:
        """Fill the tables."""

    def transaction(self, chosen: random.Random) -> Callable[[Client], None]:
        """One transaction, with its random values drawn: it does the same each time that it is tried."""

    def check(self, client: Client) -> list[str]:
        """Violated invariants."""


@dataclass(frozen=True, slots=True)
class TransactionRun:
    """One run: `clients` threads for about `seconds`."""

    transactions: int
    conflicts: int
    seconds: float
    processor_seconds: float
    faults: tuple[str, ...] = ()

    @property
    def rate(self) -> float:
        """Transactions per second."""
        return self.transactions / self.seconds


@dataclass(frozen=True, slots=True)
class TransactionResults:
    """All runs, by workload, number of clients and engine, in the order in which they were made."""

    runs: dict[str, dict[int, dict[str, list[TransactionRun]]]]
    versions: dict[str, str]
    left_out: dict[str, str]
    durability: str

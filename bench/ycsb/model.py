"""Data shared by the parts of YCSB."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Literal, Protocol, TypeAlias

from ...model.lazy_dataclass import dataclass

FIELDS = 10
FIELD_BYTES = 100
FIELD_NAMES = tuple(f"field{number}" for number in range(FIELDS))
TABLE = "usertable"
KEY = "ycsb_key"
COLUMNS = (KEY, *FIELD_NAMES)

Fields: TypeAlias = Sequence[str]
"""The values of all fields of a row, in the order of `FIELD_NAMES`."""
Durability: TypeAlias = Literal["fsync", "os"]
"""The guarantee of an acknowledged write: the disk has it; or the operating system has it, so that it survives the
process's end."""
Distribution: TypeAlias = Literal["zipfian", "uniform", "latest"]


class Kind(StrEnum):
    """The operations of a client."""

    READ = "read"
    UPDATE = "update"
    INSERT = "insert"
    SCAN = "scan"
    READ_MODIFY_WRITE = "read-modify-write"


@dataclass(frozen=True, slots=True)
class Workload:
    """Shares of the kinds of operations, which add up to 1, and the distribution of their keys."""

    name: str
    description: str
    shares: dict[Kind, float]
    distribution: Distribution = "zipfian"
    longest_scan: int = 100
    """Maximum number of rows of a scan; all lengths from 1 on are equally likely."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The parameters of a run."""

    records: int
    operations: int
    threads: int
    """Number of client threads in all."""
    processes: int = 1
    """Number of processes for them, if the binding `spreads`."""
    durability: Durability = "fsync"
    seconds: float = 60.0
    """Seconds after which a workload ends; a slow store's rate is computed from its completed operations."""
    seed: int = 1
    batch_rows: int = 1_000
    """Number of rows of one `Client.load`."""
    is_bound: bool = True
    """True if the client threads of one process stay on one processor; see `processors`."""


class Client(Protocol):
    """One thread's access to a store.

    Every call is a separate transaction; when a writing one returns, its write is as durable as the binding was
    configured. A missing key that should exist is an error, never ignored.
    """

    def load(self, keys: Sequence[str], rows: Sequence[Fields]) -> None:
        """Insert many rows at once, in one batch or transaction."""

    def read(self, key: str) -> Fields:
        """All fields of a row."""

    def update(self, key: str, field: int, value: str) -> None:
        """Sets one field, numbered as in `FIELD_NAMES`, of an existing row."""

    def insert(self, key: str, fields: Fields) -> None:
        """Inserts one new row."""

    def scan(self, first: str, count: int) -> Sequence[Fields]:
        """All fields of the first `count` rows whose keys are `first` or greater, in the order of the keys."""

    def close(self) -> None:
        """Closes the access."""


class Binding(Protocol):
    """A store under test, with an empty table after `start`.

    The state for `client` is picklable, so that a binding that `spreads` is sent to other processes after `start`. Keys
    and values are ASCII texts; each store keeps them in its usual type for texts.
    """

    name: ClassVar[str]
    """The name in `--bindings`."""
    spreads: ClassVar[bool]
    """True if several processes may use the store at once."""

    def __init__(self, home: Path, durability: Durability) -> None:
        """`home` is an empty directory for the store's files. Nothing is started."""

    def start(self) -> None:
        """Starts servers, creates the table."""

    def client(self) -> Client:
        """A client for one thread."""

    def settle(self) -> None:
        """Runs the maintenance that users would run once after a load: ANALYZE, for instance."""

    def stop(self) -> None:
        """Stops everything that `start` started. The files remain."""

    def version(self) -> str:
        """The store's name and version, for the report."""


@dataclass(frozen=True, slots=True)
class Latencies:
    """Latencies of one kind of operation, in milliseconds."""

    operations: int
    mean: float
    p50: float
    p95: float
    p99: float
    p999: float
    slowest: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """One workload with one binding."""

    binding: str
    workload: str
    """"load" or a letter."""
    distribution: Distribution | None
    operations: int
    """Completed rows of a load, or operations of a workload."""
    seconds: float
    cpu_seconds: float
    """Seconds of the client processes (and so of an embedded store), user and system time."""
    disk_bytes: int
    """Size of the binding's directory, afterwards."""
    latencies: dict[Kind, Latencies] = field(default_factory=dict)
    """By kind; for a load, those of its batches under INSERT."""
    failed: int = 0
    """Number of operations that raised an error; the first one is in `error`."""
    error: str | None = None

    @property
    def per_second(self) -> float:
        return self.operations / self.seconds

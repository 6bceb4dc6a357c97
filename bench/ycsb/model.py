"""What the parts of YCSB hand each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Literal, Protocol, TypeAlias

FIELDS = 10
FIELD_BYTES = 100
FIELD_NAMES = tuple(f"field{number}" for number in range(FIELDS))
TABLE = "usertable"
KEY = "ycsb_key"
COLUMNS = (KEY, *FIELD_NAMES)

Fields: TypeAlias = Sequence[str]
"""The values of all fields of a row, in the order of `FIELD_NAMES`."""
Durability: TypeAlias = Literal["fsync", "os"]
"""When a write is acknowledged: the disk has it; or the operating system, so that it survives the process's end."""
Distribution: TypeAlias = Literal["zipfian", "uniform", "latest"]


class Kind(StrEnum):
    """What a client may ask for."""

    READ = "read"
    UPDATE = "update"
    INSERT = "insert"
    SCAN = "scan"
    READ_MODIFY_WRITE = "read-modify-write"


@dataclass(frozen=True, slots=True)
class Workload:
    """Shares of the kinds of operations, which add up to 1, and the distribution of the keys that they ask for."""

    name: str
    description: str
    shares: dict[Kind, float]
    distribution: Distribution = "zipfian"
    longest_scan: int = 100
    """Scans have 1 to so many rows, all lengths alike."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a run is made with."""

    records: int
    operations: int
    threads: int
    """Client threads in all."""
    processes: int = 1
    """Processes that they are spread over, where the binding `spreads`."""
    durability: Durability = "fsync"
    seconds: float = 60.0
    """A workload ends after so long, whatever it has not done: a slow store's rate is told by what it did."""
    seed: int = 1
    batch_rows: int = 1_000
    """Rows of one `Client.load`."""
    is_bound: bool = True
    """Do the client threads of one process stay on one processor? See `processors`."""


class Client(Protocol):
    """One thread's way to a store. Every call is a transaction of its own; when a writing one returns, what it wrote is
    as durable as the binding was asked to make it. A key that should be there and is not is an error, never nothing."""

    def load(self, keys: Sequence[str], rows: Sequence[Fields]) -> None:
        """Insert many rows at once, in one batch or transaction."""

    def read(self, key: str) -> Fields:
        """All fields of a row."""

    def update(self, key: str, field: int, value: str) -> None:
        """Set one field, numbered as in `FIELD_NAMES`, of a row that is there."""

    def insert(self, key: str, fields: Fields) -> None:
        """One row that is not there."""

    def scan(self, first: str, count: int) -> Sequence[Fields]:
        """All fields of the first `count` rows whose keys are `first` or more, in the order of the keys."""

    def close(self) -> None:
        """Let go of the store."""


class Binding(Protocol):
    """A store under test, with an empty table after `start`.

    What `client` needs is picklable, so that a binding that `spreads` goes to other processes after `start`. Keys and
    values are ASCII texts; each store keeps them in its usual type for texts.
    """

    name: ClassVar[str]
    """As `--bindings` has it."""
    spreads: ClassVar[bool]
    """Whether several processes may use the store at once."""

    def __init__(self, home: Path, durability: Durability) -> None:
        """`home` is an empty directory for the store's files. Nothing is started."""

    def start(self) -> None:
        """Start servers, make the table."""

    def client(self) -> Client:
        """A client for one thread."""

    def settle(self) -> None:
        """What its users would do once after a load: ANALYZE, for instance."""

    def stop(self) -> None:
        """End everything that `start` started. The files stay."""

    def version(self) -> str:
        """The store's name and version, for the report."""


@dataclass(frozen=True, slots=True)
class Latencies:
    """Of one kind of operation, in milliseconds."""

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
    """Rows of a load, operations of a workload, that were done."""
    seconds: float
    cpu_seconds: float
    """Of the client processes (and so of an embedded store), user and system time."""
    disk_bytes: int
    """Of the binding's directory, afterwards."""
    latencies: dict[Kind, Latencies] = field(default_factory=dict)
    """By kind; of a load, those of its batches under INSERT."""
    failed: int = 0
    """Operations that raised; the first error stands in `error`."""
    error: str | None = None

    @property
    def per_second(self) -> float:
        return self.operations / self.seconds

"""Steps of ALTER TABLE, applied together or not at all.

No stored row is rewritten. Columns are identified by permanent ids: a renamed column keeps its id, the id of a dropped
one is not used again, an added one gets a new id and shows its initial value in older rows. Encoding, compression and
block size apply to files written from now on. `altered_table.apply_steps` computes the altered table.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from .lazy_dataclass import dataclass
from .schema import ColumnSchema, Compression, Encoding, RangePartition


@dataclass(frozen=True, slots=True)
class RenameTable:
    """`RENAME TO name`, or `SET SCHEMA`: the name in the store, and the namespace (None: that of before)."""

    name: str
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class AddColumn:
    """`ADD COLUMN`: not of the key, and nullable or with a default, which older rows show. The store assigns its id and
    its initial value."""

    column: ColumnSchema


@dataclass(frozen=True, slots=True)
class DropColumn:
    """`DROP COLUMN`: not of the key."""

    name: str


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """`RENAME COLUMN name TO new_name`; key columns too."""

    name: str
    new_name: str


@dataclass(frozen=True, slots=True)
class SetDefault:
    """`SET DEFAULT value` (physical), or `DROP DEFAULT` with None: for rows inserted from now on."""

    name: str
    default: Any


@dataclass(frozen=True, slots=True)
class SetStorage:
    """`SET ENCODING`, `SET COMPRESSION`, `SET BLOCK_SIZE`; None: unchanged."""

    name: str
    encoding: Encoding | None = None
    compression: Compression | None = None
    block_size: int | None = None


@dataclass(frozen=True, slots=True)
class SetComment:
    """`SET COMMENT` of a column, or of the table if `name` is None."""

    name: str | None
    comment: str


@dataclass(frozen=True, slots=True)
class SetOwner:
    """`OWNER TO`: a role; empty for the store's own role."""

    owner: str


@dataclass(frozen=True, slots=True)
class SetReplicas:
    """`SET REPLICAS count`: of each tablet in a cluster, which reaches it over time; an embedded store records it."""

    count: int


@dataclass(frozen=True, slots=True)
class SetQuota:
    """`SET QUOTA`: size of the table's data in bytes from which on only rows are deleted; None for no limit."""

    quota_bytes: int | None


@dataclass(frozen=True, slots=True)
class AddRangePartition:
    """`ADD RANGE PARTITION`: must not overlap one that exists; it may have hash rules of its own."""

    partition: RangePartition


@dataclass(frozen=True, slots=True)
class DropRangePartition:
    """`DROP RANGE PARTITION`: exactly one that exists, by its bounds; its rows go with it."""

    partition: RangePartition


AlterStep: TypeAlias = (
    RenameTable
    | AddColumn
    | DropColumn
    | RenameColumn
    | SetDefault
    | SetStorage
    | SetComment
    | SetOwner
    | SetReplicas
    | SetQuota
    | AddRangePartition
    | DropRangePartition
)

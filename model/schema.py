"""Table schemas: columns with permanent ids, the primary key prefix, partition rules.

A column's id never changes and is never used twice in a table, so that files written before a rename, a drop or an
added column still say which column they hold.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from ..errors import InvalidTableDefinition, UnknownColumn, did_you_mean
from .lazy_dataclass import dataclass
from .namespaces import DEFAULT_NAMESPACE, local_name
from .types import BIGINT, DataType
from .vectors.native_values import Plain, plain

MAX_COLUMNS = 300
"""Kudu's default limit; wider rows need another design."""
MAX_BUCKETS = 1024
"""Per table; every bucket is a tablet with its own log and files."""
MAX_BLOCK_BYTES = 64 << 20


AUTO_INCREMENT_COLUMN = "auto_incrementing_id"
"""Kudu's name for the hidden column that makes a non-unique key unique."""


class Encoding(enum.Enum):
    """Encoding of a column's pages; AUTO lets the writer choose by measurement. `possible_encodings` lists those of a
    type."""

    AUTO = "AUTO"
    PLAIN = "PLAIN"
    FRAME_OF_REFERENCE = "FRAME_OF_REFERENCE"
    BIT_SHUFFLE = "BIT_SHUFFLE"
    RLE = "RLE"
    DICT = "DICT"
    PREFIX = "PREFIX"


class Compression(enum.Enum):
    """Compression of pages after encoding; AUTO uses LZ4 if it saves a tenth, and ZSTD for texts that it makes clearly
    smaller."""

    AUTO = "AUTO"
    NONE = "NONE"
    LZ4 = "LZ4"
    ZSTD = "ZSTD"
    GZIP = "GZIP"
    BZ2 = "BZ2"


@dataclass(frozen=True, slots=True)
class ColumnSchema:
    """One column of a table.

    `id` is permanent (-1 in a definition that no store has accepted yet). `default` is a physical value, None for
    none (a missing value is then NULL, or refused where `nullable` is False): what a row gets that is inserted without
    a value. `initial` is what rows show that were written before the column was added (Kudu: read default); changing
    the default does not change it.

    `immutable`: the value that a row is inserted with stays. `auto_increment`: the hidden last column of a non-unique
    primary key, `AUTO_INCREMENT_COLUMN`, which the tablet fills with ascending numbers. `block_size` is the size in
    bytes that a page should have before encoding, 0 for the store's own choice.
    """

    name: str
    type: DataType
    nullable: bool = True
    id: int = -1
    default: Any = None
    encoding: Encoding = Encoding.AUTO
    compression: Compression = Compression.AUTO
    comment: str = ""
    initial: Any = None
    immutable: bool = False
    auto_increment: bool = False
    block_size: int = 0


@dataclass(frozen=True)
class Schema:
    """The columns of a table in order; the first `key_columns` of them are the primary key.

    Raises `InvalidTableDefinition` at birth where names repeat, the key is empty, nullable or not storable, or the
    auto-incrementing column is not what `non_unique_key` makes.
    """

    columns: tuple[ColumnSchema, ...]
    key_columns: int

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for column in self.columns:
            if column.name in seen:
                raise InvalidTableDefinition(f"column {column.name} occurs twice")
            seen.add(column.name)
            if not column.type.is_storable:
                raise InvalidTableDefinition(f"column {column.name}: a column cannot be of type {column.type}")
            if not 0 <= column.block_size <= MAX_BLOCK_BYTES:
                raise InvalidTableDefinition(
                    f"column {column.name}: a block size of {column.block_size} bytes is out of range; it is 1 to "
                    f"{MAX_BLOCK_BYTES:,}, or 0 for the store's own choice"
                )
        if not 1 <= self.key_columns <= len(self.columns):
            raise InvalidTableDefinition("a table needs a PRIMARY KEY of at least one column")
        if len(self.columns) > MAX_COLUMNS:
            raise InvalidTableDefinition(f"{len(self.columns)} columns are more than the limit of {MAX_COLUMNS}")
        for column in self.key:
            if column.nullable:
                raise InvalidTableDefinition(f"primary key column {column.name} must be NOT NULL")
            if column.type.is_float or column.type.kind.value == "BOOLEAN":
                raise InvalidTableDefinition(f"primary key column {column.name} cannot be of type {column.type}")
        for place, column in enumerate(self.columns):
            _check_auto_increment(column, place == self.key_columns - 1)

    @property
    def key(self) -> tuple[ColumnSchema, ...]:
        """The primary key's columns, in key order."""
        return self.columns[: self.key_columns]

    @property
    def names(self) -> list[str]:
        return [c.name for c in self.columns]

    @property
    def visible_columns(self) -> tuple[ColumnSchema, ...]:
        """Columns of `SELECT *` and of an INSERT without column names: all but the auto-incrementing column."""
        return tuple(c for c in self.columns if not c.auto_increment)

    @cached_property
    def auto_increment(self) -> ColumnSchema | None:
        """The column that makes a non-unique key unique, if there is one."""
        last = self.columns[self.key_columns - 1]
        return last if last.auto_increment else None

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {c.name: i for i, c in enumerate(self.columns)}

    @cached_property
    def by_name(self) -> dict[str, ColumnSchema]:
        """The columns in order, by name."""
        return {column.name: column for column in self.columns}

    @cached_property
    def plain(self) -> dict[str, Plain]:
        """By name, which Python values a column takes as they are."""
        return {column.name: plain(column.type) for column in self.columns}

    def position(self, name: str) -> int:
        """Position of a column; `UnknownColumn` lists the existing ones."""
        try:
            return self._positions[name]
        except KeyError:
            hint = did_you_mean(name, self.names, "the table has")
            raise UnknownColumn(f"column {name} does not exist{hint}") from None

    def column(self, name: str) -> ColumnSchema:
        """One column by name; `UnknownColumn` lists what exists."""
        return self.columns[self.position(name)]

    def __contains__(self, name: object) -> bool:
        return name in self._positions

    @cached_property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of whole rows."""
        return pa.schema([pa.field(c.name, c.type.arrow, c.nullable) for c in self.columns])


def _check_auto_increment(column: ColumnSchema, is_last_of_key: bool) -> None:
    if not column.auto_increment:
        if column.name == AUTO_INCREMENT_COLUMN:
            raise InvalidTableDefinition(
                f"{AUTO_INCREMENT_COLUMN} is the name of the hidden column of a NON UNIQUE PRIMARY KEY; choose another"
            )
        return
    if not is_last_of_key or column.type != BIGINT or column.name != AUTO_INCREMENT_COLUMN:
        raise InvalidTableDefinition(
            f"column {column.name} cannot be auto-incrementing: only the last column of a NON UNIQUE PRIMARY KEY is, "
            f"{AUTO_INCREMENT_COLUMN} of type {BIGINT}"
        )


def non_unique_key(columns: Sequence[ColumnSchema], key_columns: int) -> Schema:
    """The schema of a table with a NON UNIQUE PRIMARY KEY of the first `key_columns` columns: behind them the key gets
    `AUTO_INCREMENT_COLUMN`, which the tablet fills with ascending numbers."""
    number = ColumnSchema(AUTO_INCREMENT_COLUMN, BIGINT, nullable=False, auto_increment=True)
    return Schema((*columns[:key_columns], number, *columns[key_columns:]), key_columns + 1)


@dataclass(frozen=True, slots=True)
class HashRule:
    """`HASH (columns) INTO buckets BUCKETS`: murmur of the encoded columns, modulo the buckets.

    Two rules with equal seed and buckets over columns of equal types send equal values to equal buckets.
    """

    columns: tuple[str, ...]
    buckets: int
    seed: int = 0


@dataclass(frozen=True, slots=True)
class RangePartition:
    """Rows with `lower <= range columns < upper`; bounds are tuples of physical values, None for unbounded.

    `hash_rules` are its own in place of the table's, as many (Kudu 1.17); None: it has those of the table.
    """

    lower: tuple[Any, ...] | None
    upper: tuple[Any, ...] | None
    hash_rules: tuple[HashRule, ...] | None = None

    def has_bounds_of(self, other: RangePartition) -> bool:
        """True if both cover the same rows."""
        return self.lower == other.lower and self.upper == other.upper


@dataclass(frozen=True, slots=True)
class RangeRule:
    """`RANGE (columns)`: disjoint partitions in ascending order."""

    columns: tuple[str, ...]
    partitions: tuple[RangePartition, ...]


@dataclass(frozen=True, slots=True)
class PartitionSchema:
    """Any number of hash rules, then at most one range rule (Kudu paper, section 3.2), whose partitions may have hash
    rules of their own."""

    hash_rules: tuple[HashRule, ...] = ()
    range_rule: RangeRule | None = None

    def rules_of(self, partition: RangePartition | None) -> tuple[HashRule, ...]:
        """The hash rules of a range partition; None: of a table without ranges."""
        own = None if partition is None else partition.hash_rules
        return self.hash_rules if own is None else own

    @property
    def is_uniform(self) -> bool:
        """True if the table's hash rules apply to all rows."""
        return self.range_rule is None or all(p.hash_rules is None for p in self.range_rule.partitions)

    @property
    def columns(self) -> frozenset[str]:
        """All columns that decide to which tablet a row belongs: rows of two tablets differ in one of them."""
        ranges = () if self.range_rule is None else self.range_rule.partitions
        rules = [*self.hash_rules, *(rule for part in ranges for rule in part.hash_rules or ())]
        names = {name for rule in rules for name in rule.columns}
        return frozenset(names.union(() if self.range_rule is None else self.range_rule.columns))

    @property
    def tablet_count(self) -> int:
        """Number of tablets of a table."""
        parts: Sequence[RangePartition | None] = [None] if self.range_rule is None else self.range_rule.partitions
        return sum(math.prod(rule.buckets for rule in self.rules_of(part)) for part in parts)


@dataclass(frozen=True, slots=True)
class View:
    """A named query. `text` is the query's SQL, which only `sql` parses; `columns` are the names of its columns. The
    query reads with the rights of `owner`, a role; empty for the store's own role. `name` and `namespace` are as those
    of a `Table`."""

    name: str
    text: str
    columns: tuple[str, ...]
    owner: str = ""
    namespace: str = DEFAULT_NAMESPACE

    @property
    def local_name(self) -> str:
        """Its name within its namespace."""
        return local_name(self.namespace, self.name)


MAX_REPLICAS = 7


def check_replicas(count: int) -> None:
    """Raises `InvalidTableDefinition` unless tablets may have this number of replicas. An even number tolerates no more
    failures than the odd one below it."""
    if count % 2 == 0 or not 0 < count <= MAX_REPLICAS:
        raise InvalidTableDefinition(f"REPLICAS must be 1, 3, 5 or {MAX_REPLICAS}, not {count}")


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """A CREATE TABLE; the store assigns ids to table and columns. `replicas` None: the store's default. `owner` is a
    role; empty for the store's own role. `quota_bytes`, `name` and `namespace` are as those of a `Table`."""

    name: str
    schema: Schema
    partitions: PartitionSchema = field(default_factory=PartitionSchema)
    comment: str = ""
    replicas: int | None = None
    owner: str = ""
    quota_bytes: int | None = None
    namespace: str = DEFAULT_NAMESPACE


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the catalog. `id` is permanent; `version` counts its schema changes. `replicas`: the number requested
    for a cluster; None if unspecified, and in an embedded store. `owner` is a role; empty for the store's own role.
    `quota_bytes`: size of its data from which on only rows are deleted; None for no limit. `name` is its name in the
    store, which that of its `namespace` begins unless this is the default one (`model.namespaces`)."""

    id: str
    name: str
    schema: Schema
    partitions: PartitionSchema
    version: int = 0
    comment: str = ""
    next_column_id: int = 0
    replicas: int | None = None
    owner: str = ""
    quota_bytes: int | None = None
    namespace: str = DEFAULT_NAMESPACE

    @property
    def local_name(self) -> str:
        """Its name within its namespace."""
        return local_name(self.namespace, self.name)


def assign_column_ids(columns: Iterable[ColumnSchema], first: int = 0) -> tuple[ColumnSchema, ...]:
    """The same columns with ids from `first` on."""
    return tuple(replace(c, id=first + i) for i, c in enumerate(columns))


def check_partitions(schema: Schema, partitions: PartitionSchema) -> None:
    """Raise `InvalidTableDefinition` unless the rules fit the schema: key columns only, each hashed once, ranges
    ascending and disjoint, bucket counts within limits."""
    _check_hash_rules(schema, partitions.hash_rules)
    if partitions.range_rule is not None:
        _check_ranges(schema, partitions.range_rule)
        for part in partitions.range_rule.partitions:
            _check_own_rules(schema, part, len(partitions.hash_rules))


def _check_own_rules(schema: Schema, part: RangePartition, levels: int) -> None:
    if part.hash_rules is None:
        return
    if not levels:
        raise InvalidTableDefinition("a range partition has HASH rules of its own only where the table has HASH rules")
    if len(part.hash_rules) != levels:
        raise InvalidTableDefinition(
            f"a range partition with HASH rules of its own has as many as the table, {levels}, "
            f"not {len(part.hash_rules)}"
        )
    _check_hash_rules(schema, part.hash_rules)


def _check_hash_rules(schema: Schema, rules: Sequence[HashRule]) -> None:
    hashed: set[str] = set()
    for rule in rules:
        _check_key_columns(schema, rule.columns, "HASH")
        if rule.buckets < 2:
            raise InvalidTableDefinition(
                f"HASH ({', '.join(rule.columns)}) needs at least 2 buckets, not {rule.buckets}"
            )
        repeated = hashed.intersection(rule.columns)
        if repeated:
            raise InvalidTableDefinition(f"column {min(repeated)} is in more than one HASH rule")
        hashed.update(rule.columns)
    total = math.prod(rule.buckets for rule in rules)
    if total > MAX_BUCKETS:
        raise InvalidTableDefinition(f"{total} hash buckets are more than the limit of {MAX_BUCKETS}")


def _check_key_columns(schema: Schema, names: Sequence[str], what: str) -> None:
    if not names:
        raise InvalidTableDefinition(f"{what} needs at least one column")
    keys = [c.name for c in schema.key]
    for name in names:
        if schema.column(name).auto_increment:
            raise InvalidTableDefinition(f"{what} column {name} is auto-incrementing and cannot partition a table")
        if name not in keys:
            raise InvalidTableDefinition(
                f"{what} column {name} is not part of the primary key ({', '.join(keys)}); "
                "only key columns can partition a table"
            )


def _check_ranges(schema: Schema, rule: RangeRule) -> None:
    _check_key_columns(schema, rule.columns, "RANGE")
    previous: tuple[Any, ...] | None = None
    for number, partition in enumerate(rule.partitions):
        if number and (previous is None or partition.lower is None or partition.lower < previous):
            raise InvalidTableDefinition(f"range partitions {number} and {number + 1} overlap")
        if partition.lower is not None and partition.upper is not None and partition.lower >= partition.upper:
            raise InvalidTableDefinition(
                f"range partition {number + 1} is empty: its lower bound is not below its upper"
            )
        previous = partition.upper


def possible_encodings(type_: DataType) -> tuple[Encoding, ...]:
    """Return the encodings that columns of a type can have, the default first."""
    if type_.is_text:
        return Encoding.DICT, Encoding.PREFIX, Encoding.PLAIN
    if type_.is_code_like:
        return Encoding.FRAME_OF_REFERENCE, Encoding.RLE, Encoding.BIT_SHUFFLE, Encoding.PLAIN
    return (Encoding.PLAIN, Encoding.BIT_SHUFFLE) if type_.is_float else (Encoding.PLAIN,)


def check_encoding(column: ColumnSchema) -> None:
    """Raise `InvalidTableDefinition` if the column's type cannot be stored in its declared encoding."""
    possible = possible_encodings(column.type)
    if column.encoding is not Encoding.AUTO and column.encoding not in possible:
        names = ", ".join(e.value for e in possible)
        raise InvalidTableDefinition(
            f"column {column.name}: {column.type} cannot be stored as {column.encoding.value}; there are {names}"
        )

"""The operations of a job on its table.

A publication may be interrupted and resumed later, so each operation has a repeatable form: after a check that no row
is rejected (`check`), the rows are applied by an op that rejects none (`repeated`).

| operation | an existing key | a missing key | the job is rejected if |
|---|---|---|---|
| insert | | is inserted | a key exists, or is in the job twice |
| insert_ignore | is skipped | is inserted | |
| upsert | is updated | is inserted | |
| upsert_ignore | is updated except in its immutable columns | is inserted | |
| update | is updated | | a key is missing |
| update_ignore | is updated | is skipped | |
| delete | is deleted | | a key is missing |
| delete_ignore | is deleted | is skipped | |
| overwrite | is replaced; all rows without a key in the job are deleted | is inserted | |
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from ...errors import InterfaceError, did_you_mean
from ...model.store import Op


class Operation(enum.StrEnum):
    """An operation; the value is its name in options and in the record of jobs."""

    INSERT = "insert"
    INSERT_IGNORE = "insert_ignore"
    UPSERT = "upsert"
    UPSERT_IGNORE = "upsert_ignore"
    UPDATE = "update"
    UPDATE_IGNORE = "update_ignore"
    DELETE = "delete"
    DELETE_IGNORE = "delete_ignore"
    OVERWRITE = "overwrite"

    @classmethod
    def named(cls, name: str) -> Operation:
        """The operation by its name, in any case, with `_` or `-`; raises `InterfaceError` if there is none.

        OVERWRITE is selected by Spark's save mode.
        """
        normalized = name.strip().lower().replace("-", "_")
        names = [operation.value for operation in cls if operation is not cls.OVERWRITE]
        if normalized == cls.OVERWRITE:
            raise InterfaceError('operation=overwrite: use the save mode of Spark, .mode("overwrite")')
        if normalized not in names:
            raise InterfaceError(f"operation={name}: there is no such operation{did_you_mean(normalized, names)}")
        return cls(normalized)

    @property
    def repeated(self) -> Op:
        """The op that applies the rows, any number of times, once none of them is rejected."""
        return _REPEATED[self]

    @property
    def needs_absent(self) -> bool:
        """True if an existing key is an error."""
        return self is Operation.INSERT

    @property
    def needs_present(self) -> bool:
        """True if a missing key is an error."""
        return self in (Operation.UPDATE, Operation.DELETE)

    @property
    def deletes(self) -> bool:
        """True if only the keys of the rows are used."""
        return self in (Operation.DELETE, Operation.DELETE_IGNORE)

    @property
    def adds(self) -> bool:
        """True if a row may be inserted, so that each needs all columns without a default."""
        return not self.deletes and self not in (Operation.UPDATE, Operation.UPDATE_IGNORE)


_REPEATED: Final[Mapping[Operation, Op]] = {
    Operation.INSERT: Op.INSERT_IGNORE,
    Operation.INSERT_IGNORE: Op.INSERT_IGNORE,
    Operation.UPSERT: Op.UPSERT,
    Operation.UPSERT_IGNORE: Op.UPSERT_IGNORE,
    Operation.UPDATE: Op.UPDATE_IGNORE,
    Operation.UPDATE_IGNORE: Op.UPDATE_IGNORE,
    Operation.DELETE: Op.DELETE_IGNORE,
    Operation.DELETE_IGNORE: Op.DELETE_IGNORE,
    Operation.OVERWRITE: Op.UPSERT,
}

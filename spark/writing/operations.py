"""What a job does to its table with its rows.

A publication may be interrupted and go on later, so each operation has a form that may be repeated: after it has been
made sure that no row is refused (`check`), the rows are applied by an op that refuses none (`repeated`).

| operation | a key that is there | a key that is not | the job is refused where |
|---|---|---|---|
| insert | | is inserted | a key is there, or in the job twice |
| insert_ignore | is left alone | is inserted | |
| upsert | is changed | is inserted | |
| upsert_ignore | is changed but in its immutable columns | is inserted | |
| update | is changed | | a key is not there |
| update_ignore | is changed | is passed over | |
| delete | is deleted | | a key is not there |
| delete_ignore | is deleted | is passed over | |
| overwrite | is replaced; all rows without a key in the job are deleted | is inserted | |
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from ...errors import InterfaceError, did_you_mean
from ...model.store import Op


class Operation(enum.StrEnum):
    """What becomes of a job's rows; the value is its name in options and in the record of jobs."""

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
        """By its name, in any case, with `_` or `-`; `InterfaceError` where there is none. OVERWRITE is asked for by
        Spark's save mode."""
        found = name.strip().lower().replace("-", "_")
        names = [operation.value for operation in cls if operation is not cls.OVERWRITE]
        if found == cls.OVERWRITE:
            raise InterfaceError('operation=overwrite: Spark says so by its save mode, .mode("overwrite")')
        if found not in names:
            raise InterfaceError(f"operation={name}: there is no such operation{did_you_mean(found, names)}")
        return cls(found)

    @property
    def repeated(self) -> Op:
        """The op that applies the rows, however often, once none of them is to be refused."""
        return _REPEATED[self]

    @property
    def needs_absent(self) -> bool:
        """Is a key that is there already an error?"""
        return self is Operation.INSERT

    @property
    def needs_present(self) -> bool:
        """Is a key that is not there an error?"""
        return self in (Operation.UPDATE, Operation.DELETE)

    @property
    def deletes(self) -> bool:
        """Are only the keys of the rows looked at?"""
        return self in (Operation.DELETE, Operation.DELETE_IGNORE)

    @property
    def adds(self) -> bool:
        """Can a row be inserted, so that each needs all columns that have no default?"""
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

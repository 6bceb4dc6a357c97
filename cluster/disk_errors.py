"""The kinds of errors that work on a server's files can end with.

| kind | examples | what follows |
|---|---|---|
| full | ENOSPC, EDQUOT | a passing state: writes are refused until there is space again (`tserver.directories`) |
| passing | EMFILE, ENOMEM, EINTR | of the process, not of the file: the caller sees it, nothing else follows |
| damage | a checksum that does not fit, EIO, a file that is gone | its replica has failed (`tablets.damage`) |
"""

from __future__ import annotations

import errno

from ..errors import CorruptionError, DiskError, UnsupportedFormat

FILE_ERRORS = (CorruptionError, DiskError, UnsupportedFormat)
FULL = frozenset((errno.ENOSPC, errno.EDQUOT))
PASSING = FULL | {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR, errno.EAGAIN}


def error_number(error: BaseException) -> int | None:
    """The system's number of an error, of its cause, or of the cause of that; None where none of them has one."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError | DiskError) and seen.errno:
            return seen.errno
        seen = seen.__cause__
    return None


def is_full(error: BaseException) -> bool:
    """True if the error says that a disk, or a quota of one, is full."""
    return isinstance(error, DiskError | OSError) and error_number(error) in FULL


def is_damage(error: BaseException, directory: str) -> bool:
    """True if the error is of one of the files in `directory`, and would come again."""
    if isinstance(error, CorruptionError):
        return error.path.startswith(f"{directory}/")
    if isinstance(error, DiskError | UnsupportedFormat):
        return error_number(error) not in PASSING and f"{directory}/" in str(error)
    return False

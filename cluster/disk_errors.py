"""Classification of errors on a server's files.

| kind | examples | consequence |
|---|---|---|
| full | ENOSPC, EDQUOT | a passing state: writes are refused until there is space again (`tserver.directories`) |
| passing | EMFILE, ENOMEM, EINTR | of the process, not of the file: reported to the caller, no other consequence |
| damage | a wrong checksum, EIO, a missing file | the replica has failed (`tablets.damage`) |
"""

from __future__ import annotations

import errno

from ..errors import CorruptionError, DiskError, UnsupportedFormat

FILE_ERRORS = (CorruptionError, DiskError, UnsupportedFormat)
FULL = frozenset((errno.ENOSPC, errno.EDQUOT))
PASSING = FULL | {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR, errno.EAGAIN}


def error_number(error: BaseException) -> int | None:
    """Returns the `errno` of an error, or the first one in its chain of causes; None if there is none."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError | DiskError) and seen.errno:
            return seen.errno
        seen = seen.__cause__
    return None


def is_full(error: BaseException) -> bool:
    """True if the error reports that a disk, or a quota on it, is full."""
    return isinstance(error, DiskError | OSError) and error_number(error) in FULL


def is_damage(error: BaseException, directory: str) -> bool:
    """True if the error concerns a file in `directory` and would occur again."""
    if isinstance(error, CorruptionError):
        return error.path.startswith(f"{directory}/")
    if isinstance(error, DiskError | UnsupportedFormat):
        return error_number(error) not in PASSING and f"{directory}/" in str(error)
    return False

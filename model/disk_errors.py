"""Errors of the system as nyala's: which class an errno is, whatever was being done."""

from __future__ import annotations

import errno

from ..errors import DiskError, DiskFull, FileAccessError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_REFUSED = frozenset(
    {
        errno.EACCES,
        errno.EBADF,
        errno.EEXIST,
        errno.EFAULT,
        errno.EFBIG,
        errno.EINVAL,
        errno.EISDIR,
        errno.ELOOP,
        errno.EMLINK,
        errno.ENAMETOOLONG,
        errno.ENODEV,
        errno.ENOENT,
        errno.ENOSYS,
        errno.ENOTDIR,
        errno.ENOTEMPTY,
        errno.ENXIO,
        errno.EOPNOTSUPP,
        errno.EPERM,
        errno.EROFS,
        errno.ETXTBSY,
        errno.EXDEV,
    }
)
"""Reasons of the system that the same call meets again: of a path, its permissions or its file system. All others may
pass: too many open files, an interrupted call, a device that fails."""


def disk_error(message: str, error: OSError) -> DiskError:
    """The error to raise for one of the system's: `DiskFull`, `FileAccessError`, or a `DiskError` that may pass.

    >>> disk_error("cannot write a", OSError(errno.ENOSPC, "No space left on device")).sqlstate
    '53100'
    >>> disk_error("cannot open a", OSError(errno.EACCES, "Permission denied"))
    FileAccessError('cannot open a: Permission denied')
    """
    number = error.errno or 0
    kind = DiskFull if number in _FULL else FileAccessError if number in _REFUSED else DiskError
    return kind(f"{message}: {error.strerror or error}", number)

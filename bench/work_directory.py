"""Directories for the databases of a benchmark, which are removed with it.

--work-dir DIR     DIR/nyala-bench-XXXX/     DIR is made if it is missing, and stays unless it was made here
no --work-dir      /tmp/nyala-bench-XXXX/    in the system's directory for temporary files
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..errors import OperationalError

_PREFIX = "nyala-bench-"


@contextlib.contextmanager
def work_directory(work: Path | None, ignore_cleanup_errors: bool = False) -> Iterator[Path]:
    """A new directory; at the end it is removed, with those above it that were made for it, if they are empty.

    Parameters
    ----------
    work : Path, optional
        Where it is made. Folders of its path that do not exist are made.
    ignore_cleanup_errors : bool
        True: files that cannot be removed stay, without an error.

    Raises `OperationalError` if it cannot be made.

    >>> with work_directory(None) as home:
    ...     _ = (home / "database").write_text("rows")
    >>> home.exists()
    False
    """
    made = _missing(work)
    try:
        if work is not None:
            work.mkdir(parents=True, exist_ok=True)
        directory = tempfile.TemporaryDirectory(dir=work, prefix=_PREFIX, ignore_cleanup_errors=ignore_cleanup_errors)
    except OSError as error:
        _remove_empty(made)
        raise OperationalError(
            f"{work or tempfile.gettempdir()}: no directory for databases: {error.strerror}"
        ) from None
    try:
        with directory as name:
            yield Path(name).resolve()
    finally:
        _remove_empty(made)


def _missing(work: Path | None) -> list[Path]:
    """The folders of a path that do not exist yet, the deepest first."""
    if work is None:
        return []
    return [folder for folder in (work, *work.parents) if not folder.exists()]


def _remove_empty(made: list[Path]) -> None:
    for folder in made:
        with contextlib.suppress(OSError):  # never made, or something else has been put there
            folder.rmdir()

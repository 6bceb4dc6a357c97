"""Folders that no catalog names any more: of dropped tables and range partitions, and of a CREATE TABLE that failed.

A folder is removed once

1. no reader and no step of a bulk load holds a pin of its tablets: they read, or write, its files;
2. the flush or compaction that runs in one of its tablets has ended. One that begins later ends at once: the tablets
   are marked as dropped (`Tablet.is_dropped`);
3. no catalog that names it can be on the disk (`may_go`).

What cannot be removed yet, or not now because the disk refuses, is tried again by every call of `remove_free`; the
store's housekeeping calls it once a second. What is left when the process ends is removed when the store opens.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack

from ...errors import DiskError, OperationalError
from ...model.lazy_dataclass import dataclass
from ..files.filesystem import FileSystem
from ..tablet.tablet import Tablet

_log = logging.getLogger("nyala.storage")


@dataclass(slots=True, eq=False)
class _Dropped:
    """A folder to be removed; `label` names it for people, `told` is the failure that was logged last."""

    label: str
    directory: str
    tablets: tuple[Tablet, ...]
    may_go: Callable[[], bool]
    is_closed: bool = False
    told: str = ""


class DroppedFolders:
    """The folders of a store that are to be removed. Safe for several threads."""

    def __init__(self, fs: FileSystem):
        self._fs = fs
        self._dropped: list[_Dropped] = []
        self._mutex = threading.Lock()
        """Guards the list."""
        self._removing = threading.Lock()
        """Held while folders are removed: each by one thread."""

    def __len__(self) -> int:
        return len(self._dropped)

    def add(
        self,
        label: str,
        directory: str,
        tablets: Sequence[Tablet] = (),
        may_go: Callable[[], bool] = lambda: True,
    ) -> None:
        """Remove a folder as soon as that is possible.

        Parameters
        ----------
        label : str
            Names the table or tablet in log lines.
        directory : str
        tablets : sequence of Tablet
            The open tablets whose files are in it; they are closed first.
        may_go : callable
            False while a catalog that names the folder may be on the disk.
        """
        for tablet in tablets:
            tablet.is_dropped = True
        with self._mutex:
            self._dropped.append(_Dropped(label, directory, tuple(tablets), may_go))

    def remove_free(self, patience: float = 0.0) -> None:
        """Remove the folders that can be removed; wait at most `patience` seconds for background work to end."""
        deadline = time.monotonic() + patience
        with self._removing:
            with self._mutex:
                waiting = list(self._dropped)
            for dropped in waiting:
                if dropped.may_go() and not self._is_read(dropped, waiting):
                    self._remove_idle(dropped, deadline)

    def close(self) -> None:
        """Remove all folders that can be removed, even with readers: the store is closed."""
        with self._removing:
            for dropped in list(self._dropped):
                if dropped.may_go():
                    self._remove(dropped)

    def _is_read(self, dropped: _Dropped, waiting: Iterable[_Dropped]) -> bool:
        """True if a pin is held of one of its tablets, or of a partition that was dropped before its table."""
        inside = [other for other in waiting if other.directory.startswith(f"{dropped.directory}/")]
        return any(tablet.held_pins() for one in (dropped, *inside) for tablet in one.tablets)

    def _remove_idle(self, dropped: _Dropped, deadline: float) -> None:
        with ExitStack() as locks:
            for tablet in dropped.tablets:
                if not tablet.flush_lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
                    return
                locks.callback(tablet.flush_lock.release)
            self._remove(dropped)

    def _remove(self, dropped: _Dropped) -> None:
        if not dropped.is_closed:
            dropped.is_closed = True
            for tablet in dropped.tablets:
                with contextlib.suppress(OperationalError):  # its rows are dropped, whether they are synced or not
                    tablet.close()
        try:
            self._fs.remove_tree(dropped.directory)
        except DiskError as error:
            if str(error) != dropped.told:
                dropped.told = str(error)
                _log.warning("the files of %s stay for now, and are removed later: %s", dropped.label, error)
            return
        with self._mutex:
            self._dropped.remove(dropped)

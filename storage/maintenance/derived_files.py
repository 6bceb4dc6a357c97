"""Files that are made anew where they are missing or damaged, since all that they hold is derived from others.

    Bloom filters      from the key columns of their rowset

The new file is written beside the old one, under a temporary name, and takes its place atomically: a crash leaves the
damaged file, or the whole one. Metadata names it as before.
"""

from __future__ import annotations

import contextlib
import logging

import numpy as np

from ...errors import OperationalError
from ...model.schema import Schema
from ..files.checked_file import TEMPORARY_SUFFIX
from ..files.filesystem import FileSystem
from ..keys.bloom import write_bloom
from ..rowsets.disk_rowset import DiskRowSet, rowset_keys
from ..rowsets.stored_rowset import StoredRowSet
from ..tablet.tablet import Tablet

_log = logging.getLogger("nyala.storage")


def rebuild_bloom(tablet: Tablet, stored: StoredRowSet) -> int:
    """Rebuild the Bloom filter of a rowset; returns its size in bytes; 0 if the rowset is not in the tablet's state any
    more, or its filter is not damaged. Acquires `flush_lock`; costs reading the key columns. `CorruptionError` where
    these are damaged, `DiskError` where the disk fails: the filter is unchanged.
    """
    with tablet.flush_lock:
        tablet.check_not_dropped()
        current = next((r for r in tablet.state.rowsets if r.metadata.id == stored.metadata.id), None)
        if current is None or not current.rowset.bloom.damage:
            return 0
        size = write_filter(tablet.fs, tablet.rowset_directory, tablet.table.schema, current.rowset)
        current.rowset.bloom.reopen()
        return size


def write_filter(fs: FileSystem, directory: str, schema: Schema, rowset: DiskRowSet) -> int:
    """Write the Bloom filter of a rowset in `directory` anew, from its keys, durably; returns its size in bytes. Raises
    as `rebuild_bloom`."""
    path = rowset.bloom.path
    hashes = np.concatenate([keys.hashes() for keys in rowset_keys(schema, rowset)])
    temporary = path + TEMPORARY_SUFFIX
    try:
        size = write_bloom(fs, temporary, hashes, path)
        fs.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(OperationalError):  # the current error is more useful
            if fs.exists(temporary):
                fs.remove(temporary)
        raise
    fs.sync_directory(directory)
    _log.info("made the Bloom filter %s anew from %d keys", path, len(hashes))
    return size

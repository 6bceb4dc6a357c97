"""Hints of where keys are that are nearly always wrong; or there for all keys soon."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from nyala.model.keys.key_codec import KeyCodec
from nyala.storage.keys import key_places
from nyala.storage.rowsets.disk_rowset import DiskRowSet


@contextmanager
def one_slot(wanted: bool = True) -> Iterator[None]:
    """Every key's hint is one of the two keys that were found last, in tablets whose rowsets change meanwhile; without
    `wanted`, hints are right, and one search brings in those of all keys around."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(key_places, "SEARCHES", 2 if wanted else 1)
        if wanted:
            patched.setattr(KeyCodec, "hash_32", lambda codec, key: 7)
            patched.setattr(DiskRowSet, "key_hashes", lambda rowset, start, stop: np.full(stop - start, 7, np.uint32))
        yield

"""Hints of where keys are that are nearly always wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from nyala.storage.keys import recent_places


@contextmanager
def one_slot(wanted: bool = True) -> Iterator[None]:
    """Every key's hint is that of the key that was found last, in tablets whose rowsets change meanwhile."""
    with pytest.MonkeyPatch.context() as patched:
        if wanted:
            patched.setattr(recent_places, "MOST_SLOTS", 1)
            patched.setattr(recent_places, "_FEWEST_SLOTS", 1)
            patched.setattr(recent_places, "_TAG", 0)
        yield

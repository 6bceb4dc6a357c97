"""A store in memory, served by this process, and clients of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from owner_support import Owned


@pytest.fixture
def owned() -> Iterator[Owned]:
    with Owned() as found:
        yield found

"""A store in memory, served by this process, and clients of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from embedded_server_support import ServedStore


@pytest.fixture
def served_store() -> Iterator[ServedStore]:
    with ServedStore() as found:
        yield found

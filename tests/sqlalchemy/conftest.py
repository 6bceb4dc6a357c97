"""SQLAlchemy's engines on stores of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy


@pytest.fixture
def engine() -> Iterator[sqlalchemy.Engine]:
    """In memory."""
    engine = sqlalchemy.create_engine("nyala://")
    yield engine
    engine.dispose()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[sqlalchemy.Engine]:
    """In a directory."""
    engine = sqlalchemy.create_engine(f"nyala:///{tmp_path}/store?durability=os&threads=1")
    yield engine
    engine.dispose()

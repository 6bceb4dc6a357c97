"""The Spark session that the tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
from spark_session import OWN_WARNINGS, spark

__all__ = ["spark"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Called for all tests; those in this folder may hear PySpark's own warnings."""
    folder = Path(__file__).parent
    ours = {path for path in {item.path for item in items} if path.is_relative_to(folder)}
    for item in items:
        if item.path in ours:
            item.add_marker(pytest.mark.filterwarnings(OWN_WARNINGS))

"""The Spark session that the tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
from spark_session import OWN_WARNINGS, spark

__all__ = ["spark"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Called for all tests; those in this folder may hear PySpark's own warnings."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(OWN_WARNINGS))

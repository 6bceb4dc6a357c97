"""Spark's Python workers begin with what nyala's tasks need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import nyala
import pytest

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEEDED = ("nyala.spark.source.batch_reader", "nyala.spark.writing.batch", "nyala.cluster.client.client")


def test_workers_begin_with_what_tasks_need(spark: SparkSession) -> None:
    def look(_: int) -> tuple[str, list[str]]:
        return Path(f"/proc/{os.getppid()}/cmdline").read_text(), [name for name in NEEDED if name in sys.modules]

    ((parent, found),) = spark.sparkContext.parallelize([0], 1).map(look).collect()
    assert "nyala.spark.daemon" in parent
    assert found == list(NEEDED)


def test_what_is_forked_has_no_threads_and_no_connections_of_nyala_s() -> None:
    """gRPC does not survive a fork, nor do threads."""
    check = """
import os, threading
import nyala.spark.daemon
files = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
links = [os.readlink(file) for file in files if os.path.exists(file)]
print(threading.active_count(), [link for link in links if link.startswith("socket:")])
"""
    done = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
    )
    assert done.stdout == "1 []\n"


def test_workers_find_a_package_that_is_a_link_in_a_folder_of_sys_path(tmp_path: Path) -> None:
    (tmp_path / "nyala").symlink_to(Path(nyala.__file__).parent)
    check = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
from nyala.spark.session import _import_path
print(_import_path())
"""
    done = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": ""}
    )
    assert str(tmp_path) in done.stdout

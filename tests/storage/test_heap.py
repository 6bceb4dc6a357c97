"""Freed memory in a process that opened a store."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest
from nyala.storage.malloc import IDLE_SECONDS, HeapTrimmer

PROGRAM = """
import resource, sys
import numpy as np
import nyala

if sys.argv[1] == "store":
    nyala.connect(":memory:").close()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    arrays = [np.ones(1 << 17) for _ in range(10)]
    del arrays
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
PAGES = 10 * (8 << 17) // 4096
"""Of what is there at a time."""
only_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have other heaps")


@pytest.mark.slow
@only_glibc
def test_intermediate_results_lie_where_those_before_them_lay() -> None:
    def faults(what: str) -> int:
        done = subprocess.run([sys.executable, "-c", PROGRAM, what], capture_output=True, text=True, check=True)
        return int(done.stdout)

    assert faults("nothing") > 10 * PAGES, "such is the C library, left alone"
    assert faults("store") < 4 * PAGES


ONE_HEAP = """
import os
import threading
os.cpu_count = lambda: 4
import numpy as np
import pyarrow as pa
import nyala

nyala.connect(":memory:").close()
print(pa.default_memory_pool().backend_name)
addresses = []
thread = threading.Thread(target=lambda: addresses.append(np.ones(1 << 16).ctypes.data))
thread.start()
thread.join()
# The main heap is named in the map of the process's memory; those of other threads are not.
first, last = next(line.split()[0].split("-") for line in open("/proc/self/maps") if "[heap]" in line)
print(int(first, 16) <= addresses[0] < int(last, 16))
"""


@only_glibc
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, ["system", "True"]),
        ({"ARROW_DEFAULT_MEMORY_POOL": "mimalloc"}, ["mimalloc", "True"]),
        ({"MALLOC_ARENA_MAX": "4"}, ["system", "False"]),
        ({"GLIBC_TUNABLES": "glibc.malloc.arena_max=4"}, ["system", "False"]),
    ],
)
def test_arrow_and_all_threads_share_a_heap_unless_the_environment_says_otherwise(
    environment: dict[str, str], expected: list[str]
) -> None:
    names = ("ARROW_DEFAULT_MEMORY_POOL", "MALLOC_ARENA_MAX", "GLIBC_TUNABLES")
    inherited = {name: value for name, value in os.environ.items() if name not in names}
    command = [sys.executable, "-c", ONE_HEAP]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=inherited | environment)
    assert done.stdout.split() == expected


@only_glibc
def test_free_memory_is_returned_once_in_each_idle_period() -> None:
    now = used = 0.0
    heap = HeapTrimmer(lambda: now, lambda: used)
    returned = []
    for second in range(60):
        now += 1
        if second in (5, 6, 30):  # a statement ran, also the shortest that counts
            used += 0.06
        used += 0.001
        # Free blocks below used ones: only a request returns them.
        blocks = [bytearray(1 << 20) for _ in range(8)]
        last = bytearray(1 << 20)
        del blocks
        if heap.check():
            returned.append(second)
        del last
    assert returned == [6 + IDLE_SECONDS, 30 + IDLE_SECONDS]

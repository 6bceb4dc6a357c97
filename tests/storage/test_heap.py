"""Freed memory in a process that opened a store."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

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


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have other heaps")
def test_intermediate_results_lie_where_those_before_them_lay() -> None:
    def faults(what: str) -> int:
        done = subprocess.run([sys.executable, "-c", PROGRAM, what], capture_output=True, text=True, check=True)
        return int(done.stdout)

    assert faults("nothing") > 10 * PAGES, "such is the C library, left alone"
    assert faults("store") < 4 * PAGES

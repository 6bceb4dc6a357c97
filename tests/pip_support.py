"""Packages that cannot be installed next to those of the tests, for programs in processes of their own."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

_FETCH_SECONDS = 240


@cache
def packages(*names: str, dependencies: bool = False) -> Path:
    """A folder for PYTHONPATH with packages such as "duckdb==1.5.5", and with what they need if `dependencies`: kept in
    the user's cache, installed into it if necessary. Skips the test if they cannot be installed."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    found = Path.home() / ".cache" / "nyala-tests" / version / "-".join(names)
    if found.is_dir():
        return found
    found.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=found.parent, ignore_cleanup_errors=True) as folder:
        made = Path(folder) / "packages"
        options = [] if dependencies else ["--no-deps"]
        command = [sys.executable, "-m", "pip", "install", "-q", *options, "--target", str(made), *names]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            pytest.skip(f"{names} cannot be installed: pip has not ended in {_FETCH_SECONDS} s")
        if done.returncode:
            pytest.skip(f"{names} cannot be installed: {done.stderr.strip()[-300:]}")
        try:
            made.rename(found)
        except OSError:  # another process of the tests was faster
            assert found.is_dir()
    return found

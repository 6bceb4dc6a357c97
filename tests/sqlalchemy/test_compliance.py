"""SQLAlchemy's own suite for dialects, in a process of its own: its plugin takes pytest over."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import nyala
import pytest

SUITE = Path(__file__).parent / "compliance"


@pytest.mark.slow
def test_the_compliance_suite_passes(tmp_path: Path) -> None:
    with nyala.connect(tmp_path / "store") as connection:
        for name in ("test_schema", "test_schema_2"):  # the suite expects both
            connection.execute(f"CREATE SCHEMA {name}")
    command = [sys.executable, "-m", "pytest", "-c", "setup.cfg", "--rootdir", ".", "--confcutdir", ".", "suite.py"]
    command += ["--dburi", f"nyala:///{tmp_path}/store?durability=os&threads=1", "--tb=short", "--maxfail=20"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    found = subprocess.run(
        command, cwd=SUITE, env={**environment, "PYTHONPATH": str(SUITE)}, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout[-10_000:] + found.stderr[-2_000:]
    passed = re.search(r"(\d+) passed", found.stdout)
    assert passed and int(passed[1]) > 1000, found.stdout[-2_000:]


def test_every_closed_requirement_has_a_reason() -> None:
    script = """
from requirements import CLOSED, OPEN, Requirements
from sqlalchemy.testing import config
from sqlalchemy.testing.requirements import SuiteRequirements
from sqlalchemy.testing.exclusions import compound
names = [n for n in dir(SuiteRequirements) if isinstance(getattr(SuiteRequirements, n), property)]
strangers = (set(CLOSED) | set(OPEN)) - set(names)
assert not strangers, strangers
silent = []
for name in set(names) - set(CLOSED) - set(OPEN):
    rule = getattr(SuiteRequirements(), name)
    if isinstance(rule, compound) and any("marked as skip" in str(getattr(s, "description", "")) for s in rule.skips):
        silent.append(name)
print(sorted(silent))
"""
    environment = {**os.environ, "PYTHONPATH": str(SUITE)}
    found = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"

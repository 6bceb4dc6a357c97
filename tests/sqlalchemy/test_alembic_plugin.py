"""Alembic's entry point is harmless: Alembic also loads it in projects that do not use nyala."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from nyala.driver.alembic.plugin import AlembicPlugin


def run(script: str, *path: Path) -> subprocess.CompletedProcess[str]:
    script = f"import sys; sys.path[:0] = {[str(p) for p in path]}\n{script}"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)


def test_the_entry_point_is_a_plugin_in_both_forms() -> None:
    (found,) = metadata.entry_points(group="alembic.plugins", name="nyala")
    plugin = found.load()
    assert isinstance(plugin, AlembicPlugin)
    assert list(plugin) == [plugin]


def test_importing_alembic_does_not_import_the_engine() -> None:
    found = run(
        "import alembic.context; print([n for n in sys.modules if n.startswith(('nyala.executor', 'pyarrow'))])"
    )
    assert (found.stdout, found.returncode) == ("[]\n", 0), found.stderr


@pytest.mark.parametrize("version", ["1.4.54", "2.0.0", "2.0.30"])
def test_an_old_sqlalchemy_is_named_by_the_dialect_and_does_not_break_alembic(version: str) -> None:
    old = f"import sqlalchemy; sqlalchemy.__version__ = '{version}'\n"
    found = run(old + "import alembic.command, alembic.context; print('works')")
    assert (found.stdout, found.returncode) == ("works\n", 0), found.stderr
    found = run(old + "import nyala.driver.sqlalchemy")
    assert f"nyala needs SQLAlchemy 2.0.31 or newer, this is {version}" in found.stderr

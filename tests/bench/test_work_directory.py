"""Directories of benchmarks: made if they are missing, and nothing else is removed with them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from nyala.bench.work_directory import work_directory
from nyala.errors import OperationalError


def test_what_was_made_is_removed(tmp_path: Path) -> None:
    with work_directory(tmp_path / "a" / "b") as home:
        assert home.parent == tmp_path / "a" / "b"
        (home / "database").mkdir()
        (home / "database" / "file").write_text("rows")
    assert list(tmp_path.iterdir()) == []


def test_what_was_there_stays(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with work_directory(tmp_path / "a") as home, work_directory(tmp_path / "b") as other:
        assert home.is_dir()
        (other.parent / "of somebody else").write_text("kept")
    assert list((tmp_path / "a").iterdir()) == []
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["of somebody else"]


def test_an_error_of_the_benchmark_removes_it_too(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), work_directory(tmp_path / "a"):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_its_place_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("kept")
    for place in (file, file / "below"):
        message = f"^{re.escape(str(place))}: no directory for databases"
        with pytest.raises(OperationalError, match=message), work_directory(place):
            pass
    assert file.read_text() == "kept"


def test_no_benchmark_makes_one_by_itself() -> None:
    """Each would have to handle missing directories."""
    bench = Path(__file__).parents[2] / "bench"
    own = [path.name for path in bench.rglob("*.py") if '"nyala-bench-"' in path.read_text(encoding="utf-8")]
    assert own == ["work_directory.py"]

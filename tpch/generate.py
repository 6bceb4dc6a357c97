"""Generates the data: `tpchgen-cli` writes the eight tables as Parquet files, once per scale factor.

Files are kept and reused: they are renamed to their final names only when all eight are written. Other files are used
as well, if their row counts match the scale factor.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import DataError, OperationalError
from .schema import TABLES

GENERATOR = "tpchgen-cli"


def default_data_directory(database: Path | str, scale_factor: float) -> Path:
    """The default directory of the Parquet files: next to the database or, for a URL, in the working directory."""
    beside = Path.cwd() if isinstance(database, str) else database.resolve().parent
    return beside / f"tpch-parquet-sf{scale_factor:g}"


def find_generator() -> Path:
    """The generator's program: next to the running Python, or on the PATH; `OperationalError` has the installation
    advice."""
    beside = Path(sys.executable).parent / GENERATOR
    if beside.exists():
        return beside
    program = shutil.which(GENERATOR)
    if program is None:
        raise OperationalError(
            f"{GENERATOR}, which writes the TPC-H data, is not installed; "
            f"try: {sys.executable} -m pip install 'nyala[tpch]'"
        )
    return Path(program)


def parquet_file(directory: Path, table: str) -> Path:
    """A table's file."""
    return directory / f"{table}.parquet"


def generate(scale_factor: float, directory: Path, say: Callable[[str], None] = lambda _: None) -> Path:
    """Ensures that `directory` holds the Parquet files of a scale factor; returns the directory.

    Existing files are checked and used. Raises `DataError` if they belong to another scale factor, `OperationalError`
    if the generator is missing or fails.
    """
    if scale_factor <= 0:
        raise DataError(f"scale factor {scale_factor:g}: a number above 0 is needed")
    if all(parquet_file(directory, spec.name).exists() for spec in TABLES):
        check_scale(scale_factor, directory)
        say(f"using the Parquet files in {directory}")
        return directory
    program = find_generator()
    say(f"generating scale factor {scale_factor:g} into {directory} (kept for the next time)")
    partial = directory.with_name(directory.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        _run_generator(program, scale_factor, partial)
        directory.mkdir(parents=True, exist_ok=True)
        for spec in TABLES:
            parquet_file(partial, spec.name).replace(parquet_file(directory, spec.name))
    except OSError as error:
        raise OperationalError(f"cannot write TPC-H data into {directory}: {error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return directory


def _run_generator(program: Path, scale_factor: float, directory: Path) -> None:
    command = [str(program), "parquet", "-s", f"{scale_factor:.10g}", f"--output-dir={directory}", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    missing = [spec.name for spec in TABLES if not parquet_file(directory, spec.name).exists()]
    if done.returncode or missing:
        trouble = done.stderr.strip() or f"it wrote no file for {', '.join(missing)}"
        raise OperationalError(f"{' '.join(command)} failed (exit {done.returncode}): {trouble}")


def row_counts(directory: Path) -> dict[str, int]:
    """Rows per table, from the files' footers."""
    counts = {}
    for spec in TABLES:
        path = parquet_file(directory, spec.name)
        try:
            counts[spec.name] = pq.read_metadata(path).num_rows
        except (OSError, pa.ArrowInvalid) as error:
            raise DataError(f"{path} is not a readable Parquet file: {error}") from error
    return counts


def check_scale(scale_factor: float, directory: Path) -> None:
    """Raises `DataError` unless the files have the number of rows of the scale factor."""
    counts = row_counts(directory)
    for spec in TABLES:
        expected = spec.expected_rows(scale_factor)
        if expected is not None and counts[spec.name] != expected:
            raise DataError(
                f"{parquet_file(directory, spec.name)} has {counts[spec.name]:,} rows, where scale factor "
                f"{scale_factor:g} has {expected:,}; give another --data-dir, or remove these files"
            )

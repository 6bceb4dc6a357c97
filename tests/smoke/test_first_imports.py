"""The modules that a process imports up to its first row: each costs 0.3 ms, most of the time that the row takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import nyala
import pytest

PROGRAM: Final = """
import sys, nyala
with nyala.connect(sys.argv[1]) as connection:
    print(connection.execute(sys.argv[2]).fetchall())
    print(*sys.modules)
"""
MOST_MODULES: Final = 508
"""564 when all operators and statements were imported at once, 474 to 501 at the time of writing."""
MOST_MODULES_BY_KEY: Final = 378
"""370 at the time of writing: without the planner and the operators."""
JOINS: Final = "nyala.executor.joins.join"
OF_OTHERS: Final = frozenset(
    {
        JOINS,
        "nyala.cluster.client.client",
        "nyala.driver.stores.bulk_loads",
        "nyala.driver.tables.table_handle",
        "nyala.executor.expressions.kernel_table",
        "nyala.executor.files.csv_files",
        "nyala.executor.fragments.fragment",
        "nyala.executor.operators.recursive",
        "nyala.executor.statements.cataloging",
        "nyala.executor.statements.explaining",
        "nyala.executor.statements.listings",
        "nyala.executor.statements.changing",
        "nyala.executor.windows.window",
        "nyala.sql.binding.other_statements",
        "nyala.sql.binding.tables.create_table",
        "nyala.storage.files.memory_filesystem",
        "nyala.storage.loads.bulk_load",
        "nyala.storage.transactions.transaction_store",
    }
)
"""Modules of other statements than a query of one table: imported when the first plan or statement needs them."""
OF_PLANS: Final = frozenset(
    {"nyala.executor.execute", "nyala.executor.run.context", "nyala.planner.plan", "pyarrow.compute"}
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("first") / "store"
    with nyala.connect(path) as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v STRING)")
        connection.execute("INSERT INTO t VALUES (1, 'one'), (2, 'two')")
    return path


@pytest.fixture(scope="module")
def of_packages() -> set[str]:
    """The modules that other packages import by themselves: NumPy 2.1 does so with numpy.ma."""
    program = "import sys, numpy, pyarrow; print(*sys.modules)"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    return set(printed.split())


def first_row(directory: Path, query: str) -> tuple[str, set[str]]:
    """The rows that a new process fetches, and the modules in it."""
    command = [sys.executable, "-P", "-c", PROGRAM, str(directory), query]
    rows, modules = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return rows, set(modules.split())


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT 1", "[(1,)]"),
        ("SELECT v FROM t WHERE k = 1", "[('one',)]"),
        ("SELECT count(*), max(v) FROM t WHERE k > 0", "[(2, 'two')]"),
        ("SELECT v FROM t ORDER BY v DESC LIMIT 1", "[('two',)]"),
    ],
)
def test_a_query_of_one_table_imports_no_modules_of_others(
    directory: Path, of_packages: set[str], query: str, rows: str
) -> None:
    found, modules = first_row(directory, query)
    assert found == rows
    assert not modules & (OF_OTHERS | ({"numpy.ma", "pandas"} - of_packages))
    assert sum(name.startswith("nyala.") for name in modules) <= MOST_MODULES


def test_a_row_by_its_key_imports_no_planner(directory: Path) -> None:
    found, modules = first_row(directory, "SELECT v FROM t WHERE k = 1")
    assert found == "[('one',)]"
    assert not modules & OF_PLANS
    assert sum(name.startswith("nyala.") for name in modules) <= MOST_MODULES_BY_KEY


def test_a_join_imports_its_operator_only(directory: Path) -> None:
    found, modules = first_row(directory, "SELECT count(*) FROM t JOIN t AS u ON t.v = u.v")
    assert found == "[(2,)]"
    assert modules & OF_OTHERS == {JOINS}


def test_a_master_imports_nothing_of_sql() -> None:
    """Nor does a tablet server before it has read its options; statements, and pages with --http, need it."""
    program = "import sys, nyala.cli.server_command; print(*sys.modules)"
    command = [sys.executable, "-P", "-c", program]
    modules = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert not [name for name in modules if name.startswith(("sqlglot", "nyala.sql.", "nyala.driver.connection"))]

"""Golden scripts of the shell: what is typed and what is printed, errors included."""

import io
from pathlib import Path

import nyala
import pytest
from nyala.shell.reader import StatementReader
from nyala.shell.shell import Shell

SCRIPTS = sorted((Path(__file__).parent / "golden").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=[path.stem for path in SCRIPTS])
def test_golden(path, golden):
    with nyala.connect(":memory:", threads=1) as connection:
        out = io.StringIO()
        shell = Shell(connection, out=out, err=out)

        def run(command):
            out.seek(0)
            out.truncate()
            reader = StatementReader()
            for item in [*reader.feed(command + "\n"), *reader.finish()]:
                shell.run(item)
            return out.getvalue()

        golden(path, run)

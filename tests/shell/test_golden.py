"""Golden scripts of the shell: what is typed above `---`, what is printed below.

`NYALA_GOLDEN=write` rewrites the files with what is printed now; the diff is the review.
"""

import io
import os
import re
from pathlib import Path

import nyala
import pytest
from nyala.shell.reader import StatementReader
from nyala.shell.runner import Shell

SCRIPTS = sorted((Path(__file__).parent / "golden").glob("*.txt"))
BLOCK = re.compile(r"(?P<command>(?:^(?!---$|#).+\n)+)^---\n(?P<output>(?:^.+\n)*)", re.MULTILINE)


def rewrite(script, run):
    """The script with each block's output replaced by what `run` prints now."""
    return BLOCK.sub(lambda match: f"{match['command']}---\n{run(match['command']).strip(chr(10))}\n", script)


@pytest.mark.parametrize("path", SCRIPTS, ids=[path.stem for path in SCRIPTS])
def test_golden(path):
    with nyala.connect(":memory:", threads=1) as connection:
        out = io.StringIO()
        shell = Shell(connection, out=out, err=out)

        def run(command):
            out.seek(0)
            out.truncate()
            reader = StatementReader()
            for item in [*reader.feed(command), *reader.finish()]:
                shell.run(item)
            # Blocks end at the first empty line.
            return "\n".join(line or "." for line in out.getvalue().rstrip("\n").split("\n"))

        before = path.read_text(encoding="utf-8")
        after = rewrite(before, run)
    if os.environ.get("NYALA_GOLDEN") == "write":
        path.write_text(after, encoding="utf-8")
    else:
        assert after == before

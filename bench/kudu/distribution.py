"""Finds real Kudu: a directory with five jars of Maven's central repository.

    kudu-binary-VERSION-linux-x86_64.jar     kudu-master, kudu-tserver, kudu, and their libraries
    kudu-client-VERSION.jar, async-VERSION.jar, slf4j-api-VERSION.jar, slf4j-nop-VERSION.jar       the Java client

`kudu-binary` is published for tests of programs that use Kudu. It is unpacked beside the jars once, and needs
LD_LIBRARY_PATH and SASL_PATH of its own lib/.
"""

from __future__ import annotations

import os
import re
import shutil
import zipfile
from pathlib import Path
from typing import Final

from ...errors import OperationalError
from ...model.lazy_dataclass import dataclass

ARTEFACTS: Final = {
    "kudu-binary": "org.apache.kudu:kudu-binary:1.18.1:jar:linux-x86_64",
    "kudu-client": "org.apache.kudu:kudu-client:1.18.1",
    "async": "com.stumbleupon:async:1.4.1",
    "slf4j-api": "org.slf4j:slf4j-api:1.7.36",
    "slf4j-nop": "org.slf4j:slf4j-nop:1.7.36",
}
"""Maven coordinates by the beginning of the jar's name."""
_PROGRAMS: Final = ("kudu-master", "kudu-tserver", "kudu")


@dataclass(frozen=True, slots=True)
class KuduDistribution:
    """Unpacked programs, and the class path of the client."""

    home: Path
    """The directory with bin/, lib/ and www/."""
    class_path: str
    java: str

    def program(self, name: str) -> str:
        """The path of kudu-master, kudu-tserver or kudu."""
        return str(self.home / "bin" / name)

    def environment(self) -> dict[str, str]:
        """The environment of the programs."""
        library = self.home / "lib"
        return {**os.environ, "LD_LIBRARY_PATH": str(library), "SASL_PATH": str(library / "sasl2")}

    @property
    def version(self) -> str:
        """For instance "1.18.1"."""
        found = re.match(r"kudu-binary-([0-9.]+[0-9])", self.home.name)
        return found[1] if found else self.home.name


def find_kudu(directory: Path) -> KuduDistribution:
    """The distribution in a directory.

    Raises
    ------
    OperationalError
        If Java or a jar is missing, with the commands that download it.
    """
    java = shutil.which("java")
    if java is None:
        raise OperationalError("Kudu's client needs Java, and there is no `java` in the PATH")
    jars = {name: _newest(directory, name) for name in ARTEFACTS}
    missing = [name for name, jar in jars.items() if jar is None]
    if missing:
        commands = "\n".join(
            f"  mvn dependency:copy -Dartifact={ARTEFACTS[name]} -DoutputDirectory={directory}" for name in missing
        )
        raise OperationalError(f"{directory} has no {', '.join(missing)} of Kudu; try:\n{commands}")
    present = {name: jar for name, jar in jars.items() if jar is not None}
    programs = present.pop("kudu-binary")
    return KuduDistribution(_unpacked(programs), os.pathsep.join(map(str, present.values())), java)


def _newest(directory: Path, name: str) -> Path | None:
    jars = sorted(directory.glob(f"{name}-[0-9]*.jar"), key=lambda jar: [int(n) for n in re.findall(r"\d+", jar.name)])
    return jars[-1] if jars else None


def _unpacked(jar: Path) -> Path:
    home = jar.with_suffix("")
    if not (home / "bin" / _PROGRAMS[-1]).exists():
        partial = Path(f"{home}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        with zipfile.ZipFile(jar) as archive:
            archive.extractall(partial)
        (root,) = (path.parent for path in partial.glob("*/bin"))
        for program in _PROGRAMS:  # an archive has no permissions
            (root / "bin" / program).chmod(0o755)
        shutil.rmtree(home, ignore_errors=True)
        root.rename(home)
        shutil.rmtree(partial)
    return home

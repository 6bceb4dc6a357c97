"""`nyala diagnose`: writes an archive about a store or a cluster, to be added to the report of a problem."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..cluster.embedded_server.server_record import find_server
from ..driver.connection import connect
from ..driver.stores.open_stores import is_cluster
from ..errors import Error, InterfaceError, OperationalError
from ..model.disk_errors import disk_error
from ..model.version import __version__
from ..storage.files.os_filesystem import machine_memory
from .arguments import given_tls
from .diagnosis.directory_contents import read_directory
from .diagnosis.live_contents import read_live
from .diagnosis.masking import mask_text

_PACKAGES = ("pyarrow", "numpy", "sqlglot", "lz4", "mmh3", "sortedcontainers", "msgspec", "numcodecs", "pyspark")
_README = """Written by `nyala diagnose`.

It has no values of rows: in statements and plans, literals are replaced by "?"; in logs, quoted texts, keys of rows,
passwords and private keys are. Names of tables, columns, files, users and servers are in it. Look through it before you
pass it on.
"""


def diagnose_command(arguments: argparse.Namespace) -> int:
    """`nyala diagnose DIR|URL -o FILE`."""
    output: Path = arguments.output
    if output.suffix != ".zip":
        raise InterfaceError(f"the archive is a zip file: name it {output.name}.zip instead of {output.name}")
    target = str(arguments.target)
    if not is_cluster(target) and not Path(target).is_dir():
        raise OperationalError(f"there is no directory {target}")
    names = []
    try:
        with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in _parts(target, given_tls(arguments)):
                is_text = isinstance(content, str)
                archive.writestr(name, content if is_text else json.dumps(content, indent=2, default=str))
                names.append(name)
    except OSError as error:
        raise disk_error(f"cannot write {output}", error) from error
    print(f"wrote {output}: {', '.join(names)}")
    return 0


def _parts(target: str, tls: dict[str, str]) -> Iterator[tuple[str, Any]]:
    """The archive's files: texts, or data for JSON."""
    yield "README.txt", _README
    yield "about.json", _about()
    url = target if is_cluster(target) else ""
    if not url:
        directory = Path(target).absolute()
        yield from read_directory(directory)
        served = find_server(str(directory))
        url = served.url if served is not None and served.address else ""
        if not url:
            yield (
                "live.json",
                {"note": "no process serves the directory: there are no settings, metrics and statements"},
            )
            return
    try:
        connection = connect(url, tls_ca=tls.get("tls_ca"), tls_cert=tls.get("tls_cert"), tls_key=tls.get("tls_key"))
    except Error as error:
        yield "live.json", {"error": type(error).__name__, "message": mask_text(str(error))}
        return
    with connection:
        yield from read_live(connection, url, tls)


def _about() -> dict[str, Any]:
    """Versions, machine, and which variables of the environment are set; values of those that may be secret are not."""
    packages = {}
    for name in _PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = "not installed"
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "nyala": __version__,
        "python": sys.version,
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "memory_bytes": machine_memory(),
        "packages": packages,
        "environment": sorted(name for name in os.environ if name.startswith("NYALA_")),
    }

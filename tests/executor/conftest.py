"""The compiled kernels, built from their sources: an installation may have others, or none."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

import nyala
import pytest

ROOT = Path(nyala.__file__).parent
MODULE = "nyala.executor.kernels.compiled"


@pytest.fixture(scope="session")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The compiled kernels, built from their sources."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    modules = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["ext-modules"]
    sources = [str(ROOT / path) for module in modules if module["name"] == MODULE for path in module["sources"]]
    made = tmp_path_factory.mktemp("compiled") / "compiled.abi3.so"
    include = f"-I{sysconfig.get_paths()['include']}"
    done = subprocess.run(
        [compiler, "-O2", "-Wall", "-Werror", "-shared", "-fPIC", include, *sources, "-o", str(made)],
        capture_output=True,
        text=True,
        check=False,
    )
    if "Python.h" in done.stderr:
        pytest.skip("Python's headers are not installed")
    assert not done.returncode, done.stderr
    spec = importlib.util.spec_from_file_location("compiled", made)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

"""sqlglot's compiled build, whose classes cannot be extended, is refused with what to do."""

from __future__ import annotations

import pytest
import sqlglot.parser
from nyala import OperationalError
from nyala.sql.syntax.dialect import check_build


def test_the_compiled_build_of_sqlglot_is_refused() -> None:
    with pytest.raises(OperationalError, match="uninstall sqlglotc"):
        check_build("site-packages/sqlglot/parser.cpython-311-x86_64-linux-gnu.so")


def test_the_build_in_python_is_accepted() -> None:
    check_build(sqlglot.parser.__file__)

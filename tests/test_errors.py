"""The exception taxonomy: carets, hints, and what each class promises its catcher."""

from __future__ import annotations

import inspect

import pytest
from nyala import errors
from nyala.errors import AlreadyPresent, CorruptionError, Error, StatementError, UnknownColumn, did_you_mean

CLASSES = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, Error)]


def test_a_caret_stands_under_the_place() -> None:
    text = "SELECT a,\n\tl_orderky FROM t"
    error = UnknownColumn("column l_orderky does not exist", text, text.index("l_orderky"), 9)
    assert (error.line, error.column) == (2, 2)
    assert str(error) == (
        "column l_orderky does not exist\n"
        "LINE 2: \tl_orderky FROM t\n"
        "        \t^^^^^^^^^"
    )  # fmt: skip


def test_a_caret_at_the_very_end_still_shows() -> None:
    assert str(StatementError("more is missing", "SELECT", 6)).endswith("LINE 1: SELECT\n              ^")


def test_an_error_without_a_place_is_its_message() -> None:
    assert str(StatementError("no")) == "no"
    assert StatementError("no").line is None


@pytest.mark.parametrize(
    ("name", "existing", "expected"),
    [
        ("L_ORDERKY", ["l_orderkey", "l_partkey"], "; did you mean l_orderkey?"),
        ("zzz", ["b", "a"], "; there are a, b"),
        ("zzz", [], ""),
        ("zzz", [f"c{i:02}" for i in range(12)], "; there are " + ", ".join(f"c{i:02}" for i in range(10)) + ", ..."),
    ],
)
def test_a_wrong_name_is_answered_with_right_ones(name: str, existing: list[str], expected: str) -> None:
    assert did_you_mean(name, existing) == expected


def test_corruption_names_file_and_place() -> None:
    error = CorruptionError("checksum 1 is not 2", "t/column_3", "page 4 at offset 8192")
    assert str(error) == "t/column_3: page 4 at offset 8192: checksum 1 is not 2"


@pytest.mark.parametrize("error_class", CLASSES, ids=lambda c: c.__name__)
def test_every_class_says_what_to_do_and_has_a_sqlstate(error_class: type[Error]) -> None:
    assert error_class.__doc__ is not None and error_class.__doc__.rstrip()
    assert len(error_class.sqlstate) == 5
    assert not (error_class.retryable and error_class.deterministic), "what data alone decides, a retry cannot mend"


def test_the_pep_249_hierarchy_stands() -> None:
    assert issubclass(AlreadyPresent, errors.IntegrityError)
    assert issubclass(errors.IntegrityError, errors.DatabaseError)
    assert issubclass(errors.InterfaceError, Error)
    assert not issubclass(errors.InterfaceError, errors.DatabaseError)

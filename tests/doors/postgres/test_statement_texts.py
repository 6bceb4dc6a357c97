"""Texts of several statements, cut before any of them is parsed."""

from __future__ import annotations

from nyala.doors.postgres.session.statements import Kind, split


def test_long_blanks_and_comments_are_passed_in_one_way() -> None:
    """dbt begins statements with dozens of spaces; the number of ways to divide them doubled with each one."""
    blank = "\n        " * 2_000 + "-- a ; b\n" * 1_000 + "/* c ; **/" * 1_000
    assert [(found.text, found.kind) for found in split(f"{blank}delete from t;{blank}insert into t")] == [
        ("delete from t", Kind.CHANGE),
        ("insert into t", Kind.CHANGE),
    ]
    assert split(blank) == split(f"{blank};{blank}") == ()

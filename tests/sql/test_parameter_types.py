"""Types of parameters that have no values yet."""

from __future__ import annotations

import nyala
import pytest
from nyala.errors import InterfaceError, UnknownColumn
from nyala.model.types import BIGINT, DOUBLE, INT, DataType
from nyala.sql.binding.parameter_types import infer_parameters
from nyala.sql.syntax.parser import parse
from nyala.sql.syntax.tokenizing import tokenize

SCHEMA = (
    "CREATE TABLE t (k INT PRIMARY KEY, big BIGINT, name STRING, short VARCHAR(5), price DECIMAL(9, 2), day DATE, "
    "seen TIMESTAMP, is_on BOOLEAN, ratio DOUBLE, raw BINARY)"
)


def inferred(sql: str, *given: DataType | None) -> list[str]:
    with nyala.connect(":memory:") as connection:
        connection.execute(SCHEMA)
        (parsed,) = parse(sql)
        _, types = infer_parameters(parsed, connection.store, given)
    return [str(type_) for type_ in types]


@pytest.mark.parametrize(
    ("sql", "types"),
    [
        ("SELECT * FROM t WHERE k = $1 AND big < $2 AND name > $3", ["INT", "BIGINT", "STRING"]),
        ("SELECT * FROM t WHERE price BETWEEN ? AND ? AND day <> ?", ["DECIMAL(9,2)", "DECIMAL(9,2)", "DATE"]),
        ("SELECT * FROM t WHERE k IN ($1, 7, $2) OR seen >= $3", ["INT", "INT", "TIMESTAMP"]),
        ("SELECT * FROM t WHERE $1 = is_on AND $2", ["BOOLEAN", "BOOLEAN"]),
        ("INSERT INTO t (k, short, raw) VALUES ($1, $2, $3)", ["INT", "VARCHAR(5)", "BINARY"]),
        ("INSERT INTO t (k, ratio) VALUES (1, 2.5), ($1, $2)", ["INT", "DOUBLE"]),
        ("UPDATE t SET price = $2, name = $3 WHERE k = $1", ["INT", "DECIMAL(9,2)", "STRING"]),
        ("DELETE FROM t WHERE day < $1 RETURNING k", ["DATE"]),
        ("SELECT CAST($1 AS DATE), $2::bigint", ["DATE", "BIGINT"]),
        ("SELECT CASE WHEN k = 1 THEN day ELSE $1 END FROM t", ["DATE"]),
        ("SELECT k FROM t ORDER BY k LIMIT $1 OFFSET $2", ["BIGINT", "BIGINT"]),
        ("SELECT t.k FROM t JOIN (SELECT k FROM t WHERE big = $1) AS u USING (k) WHERE $2 < day", ["BIGINT", "DATE"]),
        ("SELECT $1", ["STRING"]),
        ("SELECT $2 IS NULL, k = $1 FROM t", ["INT", "None"]),
        ("SELECT 1", []),
    ],
)  # fmt: skip
def test_the_context_gives_the_type(sql: str, types: list[str]) -> None:
    assert inferred(sql) == types


def test_types_of_the_caller_are_kept() -> None:
    assert inferred("SELECT * FROM t WHERE k = $1 AND ratio = $2", BIGINT, None) == ["BIGINT", "DOUBLE"]
    assert inferred("SELECT $1 + 1, $2", DOUBLE, INT) == ["DOUBLE", "INT"]


def test_errors_are_those_of_binding() -> None:
    with pytest.raises(UnknownColumn):
        inferred("SELECT nope FROM t WHERE day = $1")
    with pytest.raises(InterfaceError, match="no positions"):
        inferred("SELECT * FROM t WHERE k = :name")


@pytest.mark.parametrize("text", ["SELECT $1,$2", "SELECT ($1,$2),($3,$4)", "SELECT $1||$2", "VALUES ($1::INT,$2)"])
def test_numbered_parameters_need_no_space_between_them(text: str) -> None:
    tokens = tokenize(text)
    assert [token.text for token in tokens if token.text == "$"] == ["$"] * text.count("$")
    assert all(text[token.start : token.end + 1] == token.text for token in tokens)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("SELECT '$1,$2'", "$1,$2"),
        ('SELECT 1 AS "$1,$2"', "$1,$2"),
        ("SELECT $$a$5,$6$$", "a$5,$6"),
        ("SELECT $x$ $1,$2 $x$", " $1,$2 "),
        ("SELECT $$5$$", "5"),
    ],
)
def test_texts_and_names_keep_what_looks_like_parameters(text: str, value: str) -> None:
    assert tokenize(text)[-1].text == value

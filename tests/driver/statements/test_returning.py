"""RETURNING, DEFAULT, and the forms of SET: what a statement that changes rows gives back, and does."""

from __future__ import annotations

from typing import Any

import pytest
from nyala.errors import CardinalityViolation, DivisionByZero, StatementError


@pytest.fixture
def people(connection: Any) -> Any:
    connection.execute("CREATE TABLE p (id INT PRIMARY KEY, name STRING DEFAULT 'nobody', age INT, b BIGINT IMMUTABLE)")
    connection.execute("CREATE TABLE x (id INT PRIMARY KEY, p INT, v INT)")
    connection.execute("INSERT INTO p VALUES (1, 'ann', 30, 0), (2, 'bob', 40, 0), (3, 'cid', 50, 0)")
    connection.execute("INSERT INTO x VALUES (1, 1, 100), (2, 1, 200), (3, 3, 300)")
    return connection


def rows(connection: Any, text: str) -> list[tuple[Any, ...]]:
    return sorted(connection.execute(text).fetchall(), key=repr)


def test_insert_gives_back_its_rows_with_defaults(people: Any) -> None:
    cursor = people.execute("INSERT INTO p (id, age) VALUES (8, 1), (9, 2) RETURNING *, age * 2 AS twice")
    assert [column[0] for column in cursor.description] == ["id", "name", "age", "b", "twice"]
    assert cursor.rowcount == 2
    assert cursor.fetchall() == [(8, "nobody", 1, None, 2), (9, "nobody", 2, None, 4)]


def test_insert_from_a_query(people: Any) -> None:
    found = rows(people, "INSERT INTO p (id, age) SELECT id + 10, v FROM x RETURNING id, (SELECT count(*) FROM p)")
    assert found == [(11, 3), (12, 3), (13, 3)]


def test_rows_that_were_ignored_are_not_given_back(people: Any) -> None:
    text = "INSERT IGNORE INTO p (id, age) VALUES (1, 1), (7, 7), (7, 8) RETURNING id, age"
    assert rows(people, text) == [(7, 7)]


def test_update_gives_back_new_values_and_those_of_from(people: Any) -> None:
    cursor = people.execute("UPDATE p SET age = age + v FROM x WHERE x.p = p.id AND v >= 200 RETURNING p.id, age, x.*")
    assert sorted(cursor.fetchall()) == [(1, 230, 2, 1, 200), (3, 350, 3, 3, 300)]
    assert cursor.rowcount == 2


def test_a_row_that_matches_twice_is_changed_and_counted_once(people: Any) -> None:
    assert people.execute("UPDATE p SET age = v FROM x WHERE x.p = p.id AND p.id = 1").rowcount == 1
    assert len(rows(people, "UPDATE p SET age = v FROM x WHERE x.p = p.id AND p.id = 1 RETURNING x.v")) == 1
    assert rows(people, "DELETE FROM p USING x WHERE x.p = p.id RETURNING p.id, name") == [(1, "ann"), (3, "cid")]


def test_delete_gives_back_old_values(people: Any) -> None:
    assert rows(people, "DELETE FROM p AS who WHERE who.age > 30 RETURNING who.*") == [
        (2, "bob", 40, 0),
        (3, "cid", 50, 0),
    ]
    assert rows(people, "SELECT id FROM p") == [(1,)]


def test_a_mistake_in_returning_leaves_nothing_behind(people: Any) -> None:
    for text in ("INSERT INTO p (id) VALUES (9)", "UPDATE p SET age = 0", "DELETE FROM p"):
        with pytest.raises(DivisionByZero):
            people.execute(f"{text} RETURNING 1 / (id - id)")
    assert rows(people, "SELECT id, age FROM p") == [(1, 30), (2, 40), (3, 50)]


def test_with_before_changes(people: Any) -> None:
    with_ = "WITH old AS (SELECT id AS k FROM p WHERE age >= 40)"
    assert rows(people, f"{with_} UPDATE p SET name = 'old' FROM old WHERE id = k RETURNING id") == [(2,), (3,)]
    assert rows(people, f"{with_} INSERT INTO p (id) SELECT k + 10 FROM old RETURNING id") == [(12,), (13,)]
    assert people.execute(f"{with_} DELETE FROM p WHERE id IN (SELECT k FROM old)").rowcount == 2


def test_set_of_several_columns(people: Any) -> None:
    assert rows(people, "UPDATE p SET (name, age) = ('x', DEFAULT) WHERE id = 1 RETURNING *") == [(1, "x", None, 0)]
    text = "UPDATE p SET (age, name) = (SELECT max(v), 'p' || p.id FROM x WHERE x.p = p.id) RETURNING id, age, name"
    assert rows(people, text) == [(1, 200, "p1"), (2, None, "p2"), (3, 300, "p3")]
    assert (
        rows(people, "UPDATE p SET (age, name) = (SELECT v, 'a' FROM x WHERE v > 999) RETURNING age") == [(None,)] * 3
    )
    with pytest.raises(CardinalityViolation):
        people.execute("UPDATE p SET (age, name) = (SELECT v, 'a' FROM x)")


def test_default_values(people: Any) -> None:
    people.execute("CREATE TABLE d (k INT PRIMARY KEY DEFAULT 7, s STRING DEFAULT 'x', n INT)")
    assert rows(people, "INSERT INTO d DEFAULT VALUES RETURNING *") == [(7, "x", None)]
    assert rows(people, "INSERT INTO d VALUES (8, DEFAULT, DEFAULT), (9, 'y', 1) RETURNING s, n") == [
        ("x", None),
        ("y", 1),
    ]
    assert people.execute("UPDATE d SET s = DEFAULT WHERE k = 9").rowcount == 1
    assert rows(people, "SELECT k, s FROM d") == [(7, "x"), (8, "x"), (9, "x")]


def test_immutable_columns_are_refused_when_they_are_set(people: Any) -> None:
    with pytest.raises(StatementError, match="column b is IMMUTABLE"):
        people.execute("UPDATE p SET b = 1")


def test_a_key_that_the_store_numbers(people: Any) -> None:
    people.execute("CREATE TABLE log (at INT, what STRING, NON UNIQUE PRIMARY KEY (at))")
    assert rows(people, "INSERT INTO log VALUES (1, 'a'), (1, 'a') RETURNING *") == [(1, "a"), (1, "a")]
    assert rows(people, "INSERT IGNORE INTO log VALUES (1, 'a') RETURNING what") == [("a",)]
    with pytest.raises(StatementError, match="RETURNING of an INSERT cannot return it"):
        people.execute("INSERT INTO log VALUES (1, 'a') RETURNING auto_incrementing_id")
    assert rows(people, "DELETE FROM log RETURNING at, auto_incrementing_id") == [(1, 1), (1, 2), (1, 3)]


def test_executemany_counts_and_discards(people: Any) -> None:
    cursor = people.executemany("INSERT INTO p (id) VALUES (?) RETURNING id", [(21,), (22,)])
    assert cursor.rowcount == 2
    assert cursor.description is None


def test_arrow_of_a_returning_without_rows(people: Any) -> None:
    found = people.execute("DELETE FROM p WHERE id = 99 RETURNING id, name").arrow()
    assert found.num_rows == 0
    assert found.column_names == ["id", "name"]

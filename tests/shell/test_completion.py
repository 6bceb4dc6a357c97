"""What Tab offers."""

import nyala
import pytest
from nyala.shell.completion import SqlCompleter
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document


@pytest.fixture(scope="module")
def completer():
    with nyala.connect(":memory:") as connection:
        connection.execute("CREATE TABLE orders (o_key INT PRIMARY KEY, o_date DATE)")
        connection.execute("CREATE TABLE items (i_key INT PRIMARY KEY, o_key INT)")
        yield SqlCompleter(connection)


def offered(completer, text, cursor=None):
    document = Document(text, len(text) if cursor is None else cursor)
    return [c.text for c in completer.get_completions(document, CompleteEvent())]


def test_tables_behind_from(completer):
    assert offered(completer, "select * from ") == ["items", "orders"]
    assert offered(completer, "select * from orders join it") == ["items"]
    assert offered(completer, "INSERT INTO o") == ["orders"]


def test_columns_of_the_tables_in_the_statement(completer):
    text = "select o_ from orders"
    assert offered(completer, text, len("select o_")) == ["o_key", "o_date"]
    assert offered(completer, "select items.") == ["i_key", "o_key"]
    assert "i_key" not in offered(completer, text.replace("o_ ", "i_ "), len("select i_"))


def test_keywords_come_in_the_users_case(completer):
    assert offered(completer, "sel") == ["select"]
    assert offered(completer, "SEL") == ["SELECT"]


def test_functions(completer):
    assert "coalesce" in offered(completer, "select coal")


def test_commands(completer):
    assert offered(completer, "\\ti") == ["\\timing"]
    assert offered(completer, "\\d or") == ["orders"]


def test_a_closed_connection_offers_no_tables():
    connection = nyala.connect(":memory:")
    completer = SqlCompleter(connection)
    connection.close()
    assert offered(completer, "select * from ") == []

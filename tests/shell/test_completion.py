"""Completion: the words that Tab offers."""

import nyala
import pytest
from nyala.shell.completion import SqlCompleter
from nyala.shell.highlighting import NyalaLexer
from nyala.shell.keywords import FUNCTIONS, KEYWORDS
from nyala.sql.syntax.grammar.catalog import SHOWN
from nyala.sql.syntax.grammar.statements import STATEMENTS
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from pygments.token import Keyword, Name


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


def test_columns_before_a_letter_is_typed(completer):
    assert offered(completer, "select  from orders", len("select ")) == ["o_key", "o_date"]
    assert offered(completer, "select * from orders where o_key = 1 and ") == ["o_key", "o_date"]


def test_tables_behind_a_comma_of_from(completer):
    assert offered(completer, "select * from items as i, ") == ["items", "orders"]
    assert offered(completer, "select * from items order by i_key, i_") == ["i_key"]


def test_names_of_with(completer):
    assert offered(completer, "with recent as (select 1), older (a) as (select 2) select * from ")[:2] == [
        "recent",
        "older",
    ]


def test_only_the_statement_under_the_cursor_counts(completer):
    assert "i_key" not in offered(completer, "select * from items; select i_")
    assert offered(completer, "select * from orders; select i. from items i; select 1", 31) == ["i_key", "o_key"]


def test_arguments_of_commands(completer, tmp_path):
    (tmp_path / "script.sql").touch()
    assert offered(completer, f"\\i {tmp_path}/scr") == ["ipt.sql"]
    assert offered(completer, "\\format p") == ["parquet"]
    assert offered(completer, "\\x ") == ["on", "off", "auto"]
    assert offered(completer, "\\plan select * from or") == ["orders"]


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


def test_behind_words_that_may_name_a_table_or_not(completer):
    assert offered(completer, "truncate ") == ["items", "orders"]
    assert offered(completer, "SHOW STATS FOR it") == ["items"]
    assert offered(completer, "select * from orders order by o_key desc lim") == ["limit"]
    assert "orders" in offered(completer, "update or")


def test_columns_behind_an_alias(completer):
    text = "select o. from orders as o, items i"
    assert offered(completer, text, len("select o.")) == ["o_key", "o_date"]
    assert offered(completer, "select * from items i where i.i") == ["i_key"]


def test_functions_that_give_rows(completer):
    assert offered(completer, "select * from read_") == ["read_csv", "read_parquet"]
    assert offered(completer, "select * from gen") == ["generate_series"]


def test_settings(completer):
    assert offered(completer, "SET th")[0] == "threads"
    assert offered(completer, "select 1; reset mem")[0] == "memory_limit"
    assert "threads" not in offered(completer, "update orders set th")


def test_every_statement_and_function_is_known_and_highlighted():
    assert set(STATEMENTS) <= set(KEYWORDS)
    lexer = NyalaLexer()
    for word in KEYWORDS:
        kind = next(kind for kind, text in lexer.get_tokens(f"{word.lower()} x") if text.lower() == word.lower())
        assert kind in Keyword or kind in Name.Builtin, word
    for function in FUNCTIONS:
        if function.upper() not in KEYWORDS:
            assert next(iter(lexer.get_tokens(f"{function}(1)"))) == (Name.Function, function)
    assert next(iter(lexer.get_tokens("hosts"))) == (Name, "hosts")


@pytest.fixture(scope="module")
def odd():
    """A store whose names need quotes, and a view."""
    with nyala.connect(":memory:") as connection:
        connection.execute(
            'CREATE TABLE "Order" (k INT PRIMARY KEY, "Weird col" INT, "order" INT, "a""b" INT, name INT)'
        )
        connection.execute("CREATE TABLE plain (k INT PRIMARY KEY)")
        connection.execute("CREATE VIEW best AS SELECT k FROM plain")
        yield connection


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("select We", ' from "Order"'),
        ("select ord", ' from "Order"'),
        ("select a", ' from "Order"'),
        ("select na", ' from "Order"'),
        ('select "we', ' from "Order"'),
        ('select "name', ' from "Order"'),
        ('select "Order".We', ' from "Order"'),
        ("select o.We", ' from "Order" as o'),
        ("select * from Ord", ""),
        ('select * from "O', ""),
        ("select * from main.Ord", ""),
        ('insert into "Ord', " values (1, 2, 3, 4, 5)"),
        ("describe or", ""),
    ],
)
def test_what_tab_writes_runs(odd, before, after):
    document = Document(before + after, len(before))
    first = next(iter(SqlCompleter(odd).get_completions(document, CompleteEvent())))
    odd.execute(before[: len(before) + first.start_position] + first.text + after)


def test_hints_are_written_as_sql_has_to_write_them(odd):
    for wrong, right in (
        ('SELECT weird_col FROM "Order"', '"Weird col"'),
        ('SELECT ordr FROM "Order"', '"order"'),
        ("SELECT * FROM order", '"Order"'),
        ('INSERT INTO "Order" (ordr) VALUES (1)', '"order"'),
        ('UPDATE "Order" SET weird_col = 1', '"Weird col"'),
    ):
        with pytest.raises(nyala.Error) as caught:
            odd.execute(wrong)
        assert f"did you mean {right}?" in str(caught.value)


def test_show_offers_all_its_forms_and_settings(odd):
    found = offered(SqlCompleter(odd), "SHOW ")
    assert {*SHOWN, "ALL"} == {word for word in found if word.isupper()}
    assert {"TABLES", "STATS FOR", "CREATE TABLE"} <= set(found) and "threads" in found
    assert offered(SqlCompleter(odd), "show sta") == ["stats for"]
    for phrase in SHOWN:
        needs_no_name = phrase in ("VIEWS", "SCHEMAS", "TABLES", "FUNCTIONS", "METRICS", "GRANTS", "ROLES")
        known = [] if needs_no_name else ["best"] if phrase == "CREATE VIEW" else ['"Order"', "plain"]
        assert offered(SqlCompleter(odd), f"SHOW {phrase} ")[: len(known)] == known


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("DROP TABLE ", ['"Order"', "plain"]),
        ("DROP TABLE IF EXISTS ", ['"Order"', "plain"]),
        ("UPDATE ", ['"Order"', "plain"]),
        ("INSERT INTO ", ['"Order"', "plain"]),
        ("UPSERT INTO ", ['"Order"', "plain"]),
        ("DELETE FROM ", ['"Order"', "plain"]),
        ("TRUNCATE TABLE ", ['"Order"', "plain"]),
        ("ALTER TABLE ", ['"Order"', "plain"]),
        ("ANALYZE ", ['"Order"', "plain"]),
        ("DROP VIEW ", ["best"]),
        ("DROP VIEW IF EXISTS ", ["best"]),
        ("CREATE OR REPLACE VIEW ", ["best"]),
        ("SELECT * FROM ", ['"Order"', "plain", "best"]),
        ("SELECT * FROM plain, ", ['"Order"', "plain", "best"]),
        ("DESCRIBE ", ['"Order"', "plain", "best"]),
    ],
)
def test_views_are_offered_where_a_view_can_be(odd, before, expected):
    assert offered(SqlCompleter(odd), before) == expected


@pytest.mark.parametrize(
    "before", ["GRANT SELECT, INSERT ON ", "REVOKE GRANT OPTION FOR ALL ON TABLE ", "SHOW GRANTS ON "]
)
def test_relations_behind_on_of_rights(odd, before):
    assert offered(SqlCompleter(odd), before) == ['"Order"', "plain", "best"]


def test_roles_where_a_role_can_be():
    with nyala.connect(":memory:") as connection:
        connection.execute('CREATE TABLE t (k INT PRIMARY KEY); CREATE USER ann; CREATE ROLE "The readers"')
        completer = SqlCompleter(connection)
        for before in ("GRANT SELECT ON t TO ", "REVOKE ann FROM ", "REVOKE SELECT ON main.t\nFROM ", "DROP USER ",
                       "ALTER ROLE ", "DROP ROLE IF EXISTS ", "SET ROLE ", "set session role ", "SHOW GRANTS FOR ",
                       "ALTER TABLE t OWNER TO ", "CREATE USER bob IN ROLE "):  # fmt: skip
            assert offered(completer, before) == ['"The readers"', "ann", "nyala"], before
        assert offered(completer, "grant select on t to an")[0] == "ann"
        assert offered(completer, "GRANT ALL ON t TO PUB") == ["PUBLIC"]
        assert offered(completer, "SET RO") == offered(completer, "RESET RO") == ["ROLE"]
        connection.close()
        assert offered(completer, "DROP USER ") == []


@pytest.mark.parametrize(
    "before",
    [
        "select * from '",
        "select * from plain join '",
        "copy plain from '",
        "copy (select 1 as a) to '",
        "select * from read_csv('",
        "select * from read_parquet(['",
        "create table t (primary key (k)) as select * from '",
    ],
)
def test_files_inside_quotes(odd, before, tmp_path, monkeypatch):
    (tmp_path / "rain.csv").touch()
    (tmp_path / "select.csv").touch()
    assert offered(SqlCompleter(odd), f"{before}{tmp_path}/ra") == ["in.csv"]
    monkeypatch.chdir(tmp_path)
    assert offered(SqlCompleter(odd), f"{before}sel") == ["ect.csv"]


def test_nothing_inside_texts_and_comments(odd):
    for before in ("select 'sel", "select * from plain where k = 'ra", "select 1 -- sel", "select /* sel"):
        assert offered(SqlCompleter(odd), before) == []

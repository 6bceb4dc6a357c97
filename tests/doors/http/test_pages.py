"""The pages of an embedded store: what they show, that all of it is escaped, and that the console only reads."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

import nyala
import pytest
from examples import examples
from http_support import ask, post
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.doors.http import serve
from nyala.doors.http.pages import ROUTES
from nyala.doors.http.pages.html import element, join, table
from nyala.doors.http.pages.layout import lanes_of
from nyala.doors.http.server import HttpServer
from nyala.driver.session import statement_records
from nyala.errors import Cancelled

pytestmark = pytest.mark.embedded_only("serves a store of this process")
HOSTILE = "x<script>alert(1)</script>\"'&"
VOID = frozenset({"br", "hr", "input", "link", "meta", "rect", "line"})


@pytest.fixture(scope="module")
def connection() -> Iterator[nyala.driver.connection.Connection]:
    with nyala.connect(":memory:") as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v STRING) PARTITION BY HASH (k) PARTITIONS 2")
        for n in range(3):
            connection.execute(
                "INSERT INTO t SELECT n, 'v' FROM generate_series(?, ?) AS g(n)", (n * 100, n * 100 + 99)
            )
            connection.store.flush()
        name = HOSTILE.replace('"', '""')
        connection.execute(f'CREATE TABLE "{name}" ("{name}" STRING PRIMARY KEY)')
        connection.execute(f'INSERT INTO "{name}" VALUES (?)', (HOSTILE,))
        connection.store.flush()
        yield connection


@pytest.fixture(scope="module")
def server(connection: Any) -> Iterator[HttpServer]:
    with serve(connection) as server:
        yield server


class Checked(HTMLParser):
    """Reads a page strictly: elements are closed in order, and ids are unique; keeps elements, text and headings."""

    def __init__(self, page: str):
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def socket_name(descriptor: int) -> str:
    """Address of this end of a connection."""
    with socket.socket(fileno=os.dup(descriptor)) as connection:
        host, port = connection.getsockname()[:2]
    return f"{host}:{port}"


def page(server: HttpServer, path: str, **values: object) -> Checked:
    response, text = ask(server, path + (f"?{urlencode(values)}" if values else ""))
    assert response.status == 200, text
    return Checked(text)


@pytest.mark.parametrize("path", sorted(set(ROUTES) - {"/cluster", "/table"}))
def test_pages_are_whole_and_can_be_used_without_a_mouse(server: HttpServer, path: str) -> None:
    found = page(server, path)
    assert found.named("html") == [{"lang": "en"}]
    assert len(found.named("h1")) == 1 and len(found.named("main")) == 1 and len(found.named("nav")) == 1
    assert found.named("a")[0] == {"href": "#content", "class": "skip"}
    current = [link["href"] for link in found.named("a") if link.get("aria-current") == "page"]
    assert current == [{"/statement": "/statements"}.get(path, path)]
    assert all(cell.get("scope") == "col" for cell in found.named("th"))
    labels = len(found.named("label"))
    visible = [field for field in found.named("input") if field.get("type") != "hidden"]
    assert labels == len(visible) + len(found.named("textarea"))


@pytest.mark.parametrize("path", sorted(set(ROUTES) - {"/cluster", "/table"}))
def test_pages_have_no_scripts_inline_styles_or_foreign_content(server: HttpServer, path: str) -> None:
    for tag, attributes in page(server, path).elements:
        assert tag not in ("script", "iframe", "style", "img", "object")
        assert not any(name.startswith("on") or name == "style" for name in attributes)
        for name in ("href", "src", "action"):
            assert str(attributes.get(name) or "/").startswith(("/", "#", "data:,"))


def test_hostile_names_are_text_on_every_page(server: HttpServer, connection: Any) -> None:
    with pytest.raises(nyala.Error):
        connection.execute(f"SELECT '{HOSTILE.replace(chr(39), '')}' FROM nothing_at_all -- {HOSTILE}")
    connection.execute(f"SELECT count(*) FROM t -- {HOSTILE}").fetchall()
    seen = 0
    for path, values in (
        ("/tables", {}), ("/tables", {"name": HOSTILE}), ("/table", {"name": HOSTILE}), ("/tablets", {}),
        ("/statements", {}), ("/console", {"sql": HOSTILE}), ("/log", {"text": HOSTILE}), ("/metrics", {}),
    ):  # fmt: skip
        if path == "/metrics":
            continue
        found = page(server, path, **values)
        attributes = [value or "" for _, named in found.elements for value in named.values()]
        seen += any(HOSTILE in text for text in [*found.text, *attributes])
        assert "script" not in {tag for tag, _ in found.elements}
    assert seen >= 5
    assert ask(server, "/table?name=%3Cscript%3E")[0].status == 404
    assert "<script" not in ask(server, "/<script>")[1]


@settings(max_examples=examples(200))
@given(st.text())
def test_any_text_comes_back_from_html(text: str) -> None:
    found = Checked(element("p", text, title=text))
    shown = "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
    assert "".join(found.text) == shown
    assert found.named("p") == [{"title": shown}]


def test_cells_of_tables_are_text_numbers_or_html() -> None:
    text = table("<c>", ("a", "b"), [(1, "<b>"), (None, join([element("b", "x")])), (True, 1.5)])
    assert '<td class="number">1</td><td>&lt;b&gt;</td>' in text
    assert "<td>\N{EN DASH}</td><td><b>x</b></td>" in text and "<caption>&lt;c&gt;</caption>" in text


def test_a_table_has_its_columns_tablets_and_rowsets(server: HttpServer, connection: Any) -> None:
    found = page(server, "/table", name="t")
    text = "".join(found.text)
    assert "HASH (k)" in text and "key 1" in text and "300" in text
    stored = connection.execute("SELECT count(*) FROM nyala_catalog.rowsets WHERE table_name = 't'").fetchone()[0]
    assert len(found.named("svg")) == 2 and len(found.named("rect")) == stored


def test_rowsets_are_stacked_without_overlap() -> None:
    spans = [(0.0, 0.5), (0.1, 0.2), (0.3, 0.9), (0.6, 1.0)]
    lanes = lanes_of([{"key_start": start, "key_stop": stop} for start, stop in spans])
    assert [[row["key_start"] for row in lane] for lane in lanes] == [[0.0, 0.6], [0.1, 0.3]]


def test_many_tables_have_pages_and_a_filter() -> None:
    with nyala.connect(":memory:") as connection:
        connection.execute("BEGIN")
        for n in range(250):
            connection.execute(f"CREATE TABLE table_{n:03} (k INT PRIMARY KEY)")
        connection.execute("COMMIT")
        with serve(connection) as server:
            first, last = page(server, "/tables"), page(server, "/tables", page=2)
            assert len(first.named("tr")) == 101 and len(last.named("tr")) == 51
            assert "Next page" in first.text and "Next page" not in last.text and "Previous page" in last.text
            assert len(page(server, "/tables", name="table_24").named("tr")) == 11


def test_the_rate_of_change_is_that_since_the_last_look(server: HttpServer, connection: Any) -> None:
    server.seen.clear()
    page(server, "/tables")
    server.seen = {id_: (moment - 10.0, rows - 50) for id_, (moment, rows) in server.seen.items()}
    rates = [text for text in page(server, "/tables").text if re.fullmatch(r"[+-][\d.]+", text)]
    assert rates and all(4.0 < float(rate) <= 5.0 for rate in rates)


# ---- statements ------------------------------------------------------------------------------------------------------


def test_a_running_statement_is_shown_with_its_plan_and_cancelled(server: HttpServer, connection: Any) -> None:
    cursor = connection.execute("SELECT a.k FROM t AS a, t AS b, t AS c, t AS d -- to be cancelled")
    (running,) = [record for record in statement_records.records().running() if "to be cancelled" in record.text]
    found = page(server, "/statement", id=running.number)
    assert "TableScan t" in "".join(found.text) and {"name": "cancel"}.items() <= found.named("input")[1].items()
    assert ask(server, "/statements", "POST", f"cancel={running.number}")[0].status == 403
    response, text = post(server, "/statements", cancel=running.number, token=server.token)
    assert response.status == 200 and f"Statement {running.number} was cancelled" in text
    with pytest.raises(Cancelled):
        cursor.fetchall()
    _, text = post(server, "/statements", cancel=running.number, token=server.token)
    assert "does not run any more" in text and "57014" in text


def test_an_open_transaction_is_shown(server: HttpServer, connection: Any) -> None:
    with connection.duplicate() as other:
        other.execute("BEGIN")
        other.execute("INSERT INTO t VALUES (100000, 'x')")
        text = "".join(page(server, "/sessions").text)
        assert "Open transactions" in text and "yes" in text
        other.rollback()


def test_a_statement_of_another_protocol_shows_its_client(server: HttpServer, connection: Any) -> None:
    psycopg = pytest.importorskip("psycopg")
    url = connection.serve(postgres="127.0.0.1:0")
    with psycopg.connect(url.replace("//", "//ana@"), autocommit=True) as client:
        client.execute("SELECT count(*) FROM t -- from afar").fetchall()
        port = client.pgconn.socket and socket_name(client.pgconn.socket)
    found = next(record for record in statement_records.records().recent() if "from afar" in record.text)
    assert found.client == port
    assert found.client in "".join(page(server, "/statement", id=found.number).text)


# ---- console ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        ("SELECT k FROM t WHERE k < 2 ORDER BY k DESC", "2 rows in"),
        ("SELECT n FROM generate_series(1, 10000) AS g(n)", "500 rows, and more"),
        ("EXPLAIN SELECT k FROM t", "TableScan t"),
        ("SELECT 1 / 0", "22012"),
        ("SELECT k FROM", "42601"),
        ("INSERT INTO t VALUES (1000000, 'x')", "0A000"),
        ("SELECT 1; DELETE FROM t", "0A000"),
        ("DROP TABLE t", "0A000"),
        ("EXPLAIN ANALYZE DELETE FROM t", "0A000"),
        ("BEGIN; DELETE FROM t; COMMIT", "0A000"),
        ("COPY t TO '/tmp/never.csv'", "0A000"),
        ("SELECT * FROM read_csv('/etc/passwd')", "0A000"),
        ("SET temp_directory = '/'", "0A000"),
        ("set  session engine = 'spark'", "0A000"),
    ],
)
def test_the_console_reads_and_nothing_else(server: HttpServer, connection: Any, sql: str, shown: str) -> None:
    before = connection.execute("SELECT count(*) FROM t").fetchone()
    response, text = post(server, "/console", sql=sql, token=server.token)
    assert response.status == 200
    assert shown in "".join(Checked(text).text)
    assert connection.execute("SELECT count(*) FROM t").fetchone() == before


def test_a_statement_of_the_console_ends_in_time(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nyala.doors.http.pages.console.SECONDS", 0.05)
    sql = "SELECT count(*) FROM t AS a, t AS b, t AS c, t AS d, t AS e"
    assert "57014" in post(server, "/console", sql=sql, token=server.token)[1]


def test_the_page_of_tables_waits_for_none_of_them_for_long(
    server: HttpServer, connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nyala.doors.http.pages.tables.DESCRIBED_SECONDS", 0.05)
    answered = threading.Event()
    monkeypatch.setattr(type(connection.store), "describe_tablets", lambda store, table: answered.wait(60) and [])
    try:
        response, text = ask(server, "/tables")
    finally:
        answered.set()
    assert response.status == 200 and "no answer in time" in text

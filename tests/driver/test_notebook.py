"""Display of a cursor in a notebook."""

import nyala
import pytest
from nyala.driver.connection import Connection


def rows_of(html: str) -> int:
    return html.count("<tr>") - 1


@pytest.fixture
def connection() -> Connection:
    return nyala.connect(":memory:")


def test_all_of_a_small_result_and_a_beginning_of_a_large_one_without_using_them_up(connection: Connection):
    for n, note in ((0, "0 rows"), (1, "1 row"), (20, "20 rows"), (21, "the next 20 rows"), (200_000, "the next 20")):
        cursor = connection.execute("SELECT n, 'x' || n AS t FROM generate_series(1, ?) AS g(n)", [n])
        html = cursor._repr_html_()
        assert html is not None
        assert note in html
        assert rows_of(html) == min(n, 20)
        assert cursor._repr_html_() == html
        assert cursor.fetchmany(2) == [(i, f"x{i}") for i in range(1, 3)][:n]
        assert cursor.arrow().column("n").to_pylist() == list(range(3, n + 1))


def test_the_rows_that_are_next(connection: Connection):
    cursor = connection.execute("SELECT n FROM generate_series(1, 5) AS g(n)")
    cursor.fetchone()
    assert "<td>1</td>" not in (cursor._repr_html_() or "")
    assert cursor.fetchall() == [(2,), (3,), (4,), (5,)]
    assert "0 rows" in (cursor._repr_html_() or "")


def test_values_are_text_and_never_markup(connection: Connection):
    html = connection.execute("""SELECT NULL AS a, '<script>' AS "<b>", repeat('y', 300) AS c""")._repr_html_()
    assert html is not None
    assert "<script>" not in html
    assert "<i>NULL</i>" in html
    assert "&lt;b&gt;" in html
    assert f"{'y' * 200}…" in html


def test_nothing_without_a_result_set(connection: Connection):
    cursor = connection.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    assert cursor._repr_html_() is None
    cursor.close()
    assert cursor._repr_html_() is None

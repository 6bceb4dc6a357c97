"""Results as text."""

import csv
import datetime
import decimal
import io
import json

import pyarrow as pa
import pytest
from nyala.model.types import BIGINT, BINARY, BOOLEAN, DATE, DECIMAL, DOUBLE, INTERVAL, STRING, TIMESTAMP
from nyala.shell import formats

COLUMNS = [("id", BIGINT), ("name", STRING), ("price", DECIMAL(15, 2)), ("day", DATE), ("ok", BOOLEAN)]
ROWS = [
    (1, "one", decimal.Decimal("10.50"), datetime.date(2020, 2, 29), True),
    (20, "two|2", None, None, False),
    (None, "", decimal.Decimal("-0.05"), datetime.date(1969, 12, 31), None),
]


def batch(rows, columns=COLUMNS):
    arrays = [pa.array([row[i] for row in rows], type_.arrow) for i, (_, type_) in enumerate(columns)]
    return pa.record_batch(arrays, [name for name, _ in columns])


def written(format, batches, columns=COLUMNS):
    out = io.StringIO()
    count = formats.write(format, columns, iter(batches), out)
    assert count == sum(b.num_rows for b in batches)
    return out.getvalue()


def test_table():
    assert written("table", [batch(ROWS)]) == (
        "  id | name  | price | day        | ok\n"
        "-----+-------+-------+------------+------\n"
        "   1 | one   | 10.50 | 2020-02-29 | true\n"
        "  20 | two|2 |  NULL | NULL       | false\n"
        "NULL |       | -0.05 | 1969-12-31 | NULL\n"
    ).replace("+------\n", "+------\n")


def test_a_table_without_rows_has_a_header():
    assert written("table", []) == "id | name | price | day | ok\n---+------+-------+-----+---\n"


def test_widths_come_from_the_first_rows_whatever_their_batches():
    narrow, wide = batch([(1, "a", None, None, True)]), batch([(2, "abcdef", None, None, True)])
    lines = written("table", [narrow, wide]).splitlines()
    assert lines[2] == " 1 | a      |  NULL | NULL | true"
    assert lines[3] == " 2 | abcdef |  NULL | NULL | true"


def test_rows_beyond_the_measured_ones_keep_the_widths():
    first = batch([(1, "a", None, None, True)] * formats.MEASURED)
    lines = written("table", [first, batch([(2, "abcdef", None, None, True)])]).splitlines()
    assert lines[2] == " 1 | a    |  NULL | NULL | true"
    assert lines[-1] == " 2 | abcdef |  NULL | NULL | true"


def test_vertical():
    assert written("vertical", [batch(ROWS[:1]), batch(ROWS[1:2])]).splitlines()[:8] == [
        "-[ row 1 ]--------------",
        "id    | 1",
        "name  | one",
        "price | 10.50",
        "day   | 2020-02-29",
        "ok    | true",
        "-[ row 2 ]--------------",
        "id    | 20",
    ]


def test_control_characters_are_shown_not_sent():
    text = written("table", [batch([("a\nb\x1b[31m\t",)], [("t", STRING)])], [("t", STRING)])
    assert text.splitlines()[2] == "a\\nb\\x1b[31m\\t"


def test_wide_characters_count_double():
    lines = written(
        "table", [batch([("日本", 1), ("x", 2)], [("t", STRING), ("n", BIGINT)])], [("t", STRING), ("n", BIGINT)]
    )
    assert lines.splitlines()[2:] == ["日本 | 1", "x    | 2"]


def test_csv_can_be_read_back():
    rows = [(1, 'he said "hi", twice', None, None, True), (2, "", decimal.Decimal("1.00"), None, None)]
    text = written("csv", [batch(rows)])
    assert text.splitlines()[1:] == ['1,"he said ""hi"", twice",,,true', '2,"",1.00,,']
    assert list(csv.reader(io.StringIO(text)))[1] == ["1", 'he said "hi", twice', "", "", "true"]


def test_json_is_json_with_exact_decimals():
    text = written("json", [batch(ROWS[:1]), batch(ROWS[1:])])
    rows = json.loads(text, parse_float=decimal.Decimal)
    assert rows[0] == {"id": 1, "name": "one", "price": decimal.Decimal("10.50"), "day": "2020-02-29", "ok": True}
    assert rows[2]["id"] is None
    assert len(rows) == 3


def test_json_of_no_rows_and_of_odd_floats():
    assert json.loads(written("json", [])) == []
    columns = [("x", DOUBLE)]
    odd = batch([(float("nan"),), (float("inf"),), (1e300,), (None,)], columns)
    assert [row["x"] for row in json.loads(written("json", [odd], columns))] == [None, None, 1e300, None]


def test_markdown_escapes_bars():
    assert written("markdown", [batch(ROWS[1:2])]) == (
        "| id | name | price | day | ok |\n| ---: | --- | ---: | --- | --- |\n| 20 | two\\|2 | NULL | NULL | false |\n"
    )


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        (TIMESTAMP, datetime.datetime(2020, 1, 2, 3, 4, 5), "2020-01-02 03:04:05"),
        (TIMESTAMP, datetime.datetime(2020, 1, 2, 3, 4, 5, 60), "2020-01-02 03:04:05.000060"),
        (BINARY, b"\x00\xff", "\\x00ff"),
        (INTERVAL, (14, 3, 0), "1 year 2 mons 3 days"),
        (INTERVAL, (0, 0, 3_723_500_000_000), "01:02:03.5"),
        (INTERVAL, (0, 0, 0), "00:00:00"),
        (DOUBLE, 0.1, "0.1"),
    ],
)
def test_texts(type_, value, expected):
    assert formats.texts(pa.array([value, None], type_.arrow), type_) == [expected, None]

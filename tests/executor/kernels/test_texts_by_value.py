"""Kernels of texts over whole columns, against plain Python row by row, on hostile texts.

The texts are empty, NULL, long, of combining characters, of characters of two to four bytes, full of quotes and blanks;
columns are plain (slices of larger ones), dictionaries or constants.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import DataError
from nyala.executor.expressions.kernel_table import KERNELS
from nyala.executor.kernels.numbers import number_templates
from nyala.executor.kernels.texts import edit_distance, text_encodings, text_quoting
from nyala.executor.kernels.times import date_templates
from nyala.model.types import BIGINT, BINARY, DATE, DECIMAL, STRING, TIMESTAMP, DataType
from nyala.model.vectors.vector import Const, Dict, Flat, Text, Vector

HOSTILE = st.one_of(
    st.text("abAZ1_$ß語😀e\u0301ǆİ'\"\\%=. \n\t", max_size=14),
    st.text("ab", min_size=60, max_size=140),
    st.text("aß語", min_size=30, max_size=70),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6),
    st.sampled_from(["", "select", "a_1$", "O'Reilly", "x" * 5000, "é" * 5000, "\ud7ff\ue000", "e\u0301\u0301"]),
)
COUNTS = st.one_of(st.integers(-6, 12), st.sampled_from([2**31 - 1, 2**31, 2**62, -(2**31), -(2**62)]))


def substring(text: str, start: int, length: int | None = None) -> str:
    if length is not None and length < 0:
        raise DataError("a negative length of a substring is not possible")
    end = len(text) if length is None else max(0, start - 1 + length)
    return text[max(0, start - 1) : end]


def left(text: str, count: int) -> str:
    return text[:count] if abs(count) <= len(text) else text if count > 0 else ""


def right(text: str, count: int) -> str:
    return text[max(0, len(text) - count) :] if count >= 0 else text[-count:]


def strpos(text: str, part: str) -> int:
    return text.find(part) + 1


def column_of(type_: DataType, values: Sequence[Any], form: str) -> Vector:
    """The values as a vector: "constant" (all equal), "dictionary", or plain."""
    if form == "constant":
        return Const(type_, values[0], len(values))
    validity = np.array([value is not None for value in values])
    if type_ == STRING:
        if form != "dictionary":
            # A slice's rows lie in the middle of the buffer, between others.
            return Text(STRING, pa.array(["ßx", *values, "y語"], pa.string()).slice(1, len(values)))
        entries = sorted({value for value in values if value is not None} | {"語 unused"}, key=str.encode)
        codes = np.array([0 if value is None else entries.index(value) for value in values], np.uint16)
        return Dict(STRING, codes, pa.array(entries), None if validity.all() else validity)
    numbers = np.array([0 if value is None else value for value in values], np.int64)
    return Flat(BIGINT, numbers, None if validity.all() else validity)


def check(
    name: str, function: Callable[..., Any], result: DataType, types: Sequence[DataType], columns: list[Any], forms: Any
) -> None:
    """Compare a kernel with the function of one row; NULL where an argument is, unless the function takes None."""
    vectors = [column_of(*column) for column in zip(types, columns, forms, strict=True)]
    try:
        expected = [None if None in row else function(*row) for row in zip(*columns, strict=True)]
    except DataError:
        with pytest.raises(DataError):
            KERNELS[name](result, *vectors)
        return
    found = KERNELS[name](result, *vectors).to_arrow()
    found.validate(full=True)
    assert found.to_pylist() == expected


@st.composite
def columns_of(draw: st.DrawFn, *arguments: st.SearchStrategy[Any]) -> tuple[list[list[Any]], list[str]]:
    rows = draw(st.integers(1, 12))
    columns, forms = [], []
    for argument in arguments:
        forms.append(draw(st.sampled_from(["constant", "dictionary", "plain", "plain"])))
        if forms[-1] == "constant":
            columns.append([draw(argument)] * rows)
        else:
            columns.append(draw(st.lists(st.one_of(st.none(), argument), min_size=rows, max_size=rows)))
    return columns, forms


FUNCTIONS = [
    ("substring", substring, STRING, (HOSTILE, COUNTS)),
    ("substring", substring, STRING, (HOSTILE, COUNTS, st.integers(0, 8))),
    ("left", left, STRING, (HOSTILE, COUNTS)),
    ("right", right, STRING, (HOSTILE, COUNTS)),
    ("reverse", lambda text: text[::-1], STRING, (HOSTILE,)),
    ("length", len, BIGINT, (HOSTILE,)),
    ("strpos", strpos, BIGINT, (HOSTILE, st.text("abß語😀\u0301'", max_size=2))),
    ("quote_literal", text_quoting.quote_literal, STRING, (HOSTILE,)),
    ("quote_ident", text_quoting.quote_ident, STRING, (HOSTILE,)),
    ("encode", text_encodings.encode, STRING, (HOSTILE, st.sampled_from(["hex", "base64", "escape"]))),
    ("decode", text_encodings.decode, BINARY, (st.text("0aF ", max_size=4), st.just("hex"))),
    ("levenshtein", edit_distance.levenshtein, BIGINT, (HOSTILE, HOSTILE)),
]


@pytest.mark.parametrize(("name", "function", "result", "arguments"), FUNCTIONS, ids=[case[0] for case in FUNCTIONS])
@settings(deadline=None, max_examples=examples(80))
@given(data=st.data())
def test_columns_equal_single_texts(
    name: str, function: Callable[..., Any], result: DataType, arguments: Any, data: st.DataObject
) -> None:
    columns, forms = data.draw(columns_of(*arguments))
    types = [BIGINT if any(isinstance(v, int) for v in column) else STRING for column in columns]
    types = [BIGINT if name in ("substring", "left", "right") and i else type_ for i, type_ in enumerate(types)]
    check(name, function, result, types, columns, forms)


@settings(deadline=None, max_examples=examples(80))
@given(st.lists(st.one_of(st.none(), st.binary(max_size=80)), min_size=1, max_size=12), st.booleans())
def test_base64_and_hex_are_read_back(values: list[bytes | None], blanks: bool) -> None:
    for form in ("hex", "base64"):
        constant = Const(STRING, form, len(values))
        encoded = KERNELS["encode"](STRING, Text(BINARY, pa.array(values, pa.binary())), constant)
        texts = encoded.to_arrow().to_pylist()
        assert texts == [None if value is None else text_encodings.encode(value, form) for value in values]
        if blanks:  # rows of an unusual shape between the others
            texts = [text if text is None or i % 2 else f" {text}\n" for i, text in enumerate(texts)]
        column = Text(STRING, pa.array(texts, pa.string()))
        decoded = KERNELS["decode"](BINARY, column, constant).to_arrow()
        decoded.validate(full=True)
        assert decoded.to_pylist() == values


@pytest.mark.parametrize("text", ["A", "A===", "AA=A", "=AAA", "====", "AAA\u00df", "A=A=", "AAAAA", "QUI=QUI="])
def test_texts_that_are_not_base64_are_refused_as_python_refuses_them(text: str) -> None:
    column = Text(STRING, pa.array(["QUJD", text]))
    try:
        expected: Any = [b"ABC", base64.b64decode(text, validate=True)]
    except ValueError:
        with pytest.raises(DataError, match="is not base64"):
            KERNELS["decode"](BINARY, column, Const(STRING, "base64", 2))
        return
    assert KERNELS["decode"](BINARY, column, Const(STRING, "base64", 2)).to_arrow().to_pylist() == expected


@settings(deadline=None, max_examples=examples(80))
@given(
    st.sampled_from(["%s", "%s-%s", "%2$s %1$s", "%I = %L", "100%% %s", "", "ß", "[%5s|%-5s]", "%L%L", "%s%%%s"]),
    st.lists(st.tuples(st.one_of(st.none(), HOSTILE), st.one_of(st.none(), HOSTILE)), min_size=1, max_size=8),
)
def test_format_of_columns(template: str, rows: list[tuple[str | None, str | None]]) -> None:
    columns = [column_of(STRING, list(column), "plain") for column in zip(*rows)]
    form = Const(STRING, template, len(rows))
    try:
        expected = [text_quoting.formatted(template, *row) for row in rows]
    except DataError:
        with pytest.raises(DataError, match="NULL is not an identifier"):
            KERNELS["format"](STRING, form, *columns)
        return
    found = KERNELS["format"](STRING, form, *columns).to_arrow()
    assert found.to_pylist() == expected


def test_levenshtein_of_every_word_size_equals_the_textbook() -> None:
    rng = random.Random(7)
    lengths = (0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 90)
    pairs = [tuple("".join(rng.choices("abß", k=n)) for n in (a, b)) for a in lengths for b in lengths]
    columns = [list(column) for column in zip(*pairs)]
    found = KERNELS["levenshtein"](BIGINT, *(column_of(STRING, column, "plain") for column in columns))
    assert found.to_arrow().to_pylist() == [textbook(*pair) for pair in pairs]
    assert [edit_distance.levenshtein(*pair) for pair in pairs] == [textbook(*pair) for pair in pairs]


def textbook(one: str, other: str) -> int:
    """The matrix of distances, row by row."""
    before = list(range(len(other) + 1))
    for i, char in enumerate(one, 1):
        now = [i]
        for j, against in enumerate(other, 1):
            now.append(min(before[j] + 1, now[-1] + 1, before[j - 1] + (char != against)))
        before = now
    return before[-1]


# ---- templates -------------------------------------------------------------------------------------------------------

DATE_TEMPLATES = (
    "YYYY-MM-DD",
    "YYYYMMDD",
    "DD.MM.YY",
    "DD Mon YYYY",
    "DDMONYYYY",
    "YYYY-MM-DD HH24:MI:SS",
    "HH12:MI AM",
    "HH:MI p.m.",
    'YYYY-MM-DD"T"HH24:MI:SS.MS',
    "YYYY-MM-DD HH24:MI:SS.US",
    "SS.FF3",
    "FMMM/FMDD/YYYY",
    'YYYY"0"MM',
    "DDD YYYY",
    "MM-MM",
    "YYYY語MM",
    "Month DD, YYYY",
    "J",
    "DDth Mon",
    "MI",
    "",
)


@st.composite
def written_dates(draw: st.DrawFn, template: str) -> str:
    """A text of about the template's shape: numbers of the right width, mostly in range, and now and then another."""
    shown = []
    for piece in date_templates.pieces(template):
        if not piece.name:
            shown.append(piece.written)
        elif piece.name in ("MON", "MONTH"):
            name = draw(st.sampled_from(date_templates.MONTHS))
            name = name[:3] if piece.name == "MON" else name
            shown.append(draw(st.sampled_from([name, name.upper(), name.lower()])))
        elif piece.name.replace(".", "") in ("AM", "PM"):
            shown.append(draw(st.sampled_from(["AM", "pm", "p.m.", "Pm"])))
        else:
            width = date_templates.NUMBER_WIDTHS[piece.name]
            number = draw(st.integers(0, min(10**width - 1, draw(st.sampled_from([12, 31, 60, 10**7])))))
            shown.append(str(number).zfill(draw(st.sampled_from([width, width, width, 1]))))
    text = "".join(shown)
    change = draw(st.sampled_from(["", "", "", "cut", "blank", "letter"]))
    return {"cut": text[:-1], "blank": f" {text}", "letter": f"{text[:2]}x{text[3:]}"}.get(change, text)


@pytest.mark.parametrize("template", DATE_TEMPLATES)
@settings(deadline=None, max_examples=examples(60))
@given(data=st.data())
def test_dates_are_read_by_columns_as_one_by_one(template: str, data: st.DataObject) -> None:
    texts = data.draw(st.lists(st.one_of(st.none(), written_dates(template), HOSTILE), min_size=1, max_size=10))
    readable: list[str | None] = []
    for text in texts:
        try:
            if text is not None:
                date_templates.read(text, template)
            readable.append(text)
        except DataError:
            with pytest.raises(DataError) as raised:
                KERNELS["to_timestamp"](TIMESTAMP, column_of(STRING, [text], "plain"), Const(STRING, template, 1))
            assert repr(text)[1:-1] in str(raised.value) or text in str(raised.value)
    if not readable:
        return
    column, form = column_of(STRING, readable, "plain"), Const(STRING, template, len(readable))
    expected = [None if text is None else date_templates.read(text, template) for text in readable]
    assert KERNELS["to_timestamp"](TIMESTAMP, column, form).to_arrow().to_pylist() == expected
    days = [None if moment is None else moment.date() for moment in expected]
    assert KERNELS["to_date"](DATE, column, form).to_arrow().to_pylist() == days


@settings(deadline=None, max_examples=examples(150))
@given(
    st.sampled_from([("9999", 0), ("99G999D9S", 1), ("9999999999999999", 0), ("0.99", 2), ("9D999999", 6)]),
    st.lists(
        st.one_of(
            st.none(), st.text("0123456789.,-+<>ß ", max_size=9), st.from_regex(r"\A-?[0-9]{1,4}(\.[0-9]{1,3})?\Z")
        ),
        min_size=1,
        max_size=10,
    ),
)
def test_numbers_are_read_by_columns_as_one_by_one(form: tuple[str, int], texts: list[str | None]) -> None:
    template, scale = form
    readable: list[str | None] = []
    for text in texts:
        try:
            readable.append(text if text is None else (number_templates.read(text, template) and text) or text)
        except DataError:
            with pytest.raises(DataError):
                KERNELS["to_number"](DECIMAL(38, scale), column_of(STRING, [text], "plain"), Const(STRING, template, 1))
    if not readable:
        return
    found = KERNELS["to_number"](
        DECIMAL(38, scale), column_of(STRING, readable, "plain"), Const(STRING, template, len(readable))
    )
    expected = [None if text is None else number_templates.read(text, template) for text in readable]
    assert found.to_arrow().to_pylist() == [None if n is None else Decimal(n) for n in expected]

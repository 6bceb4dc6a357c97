"""Positions and pieces of texts in whole columns, against Python's own functions row by row."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nyala.errors import DataError
from nyala.executor.expressions.kernel_table import KERNELS
from nyala.executor.kernels import distinct
from nyala.executor.kernels.texts import text_encodings
from nyala.executor.kernels.texts.regex_matches import characters_before
from nyala.executor.kernels.texts.text_characters import translated
from nyala.executor.kernels.texts.text_pieces import lpad, rpad
from nyala.model.types import BIGINT, INT, STRING, DataType
from nyala.model.vectors.vector import Const, Dict, Flat, Text, Vector

LETTERS = st.text("abAZ1_ßǆ語😀. ", max_size=12)


# ---- one text at a time ------------------------------------------------------------------------------------------


def initcap(text: str) -> str:
    """Capitalize the first letter of each word, the others in lower case; words consist of letters and digits."""
    return re.sub(r"[^\W_]+", lambda m: m[0][0].upper() + m[0][1:].lower(), text)


def overlay(text: str, new: str, start: int, length: int | None = None) -> str:
    """Replace characters from a position on with another text, by default as many as it has."""
    if start < 1:
        raise DataError(f"OVERLAY cannot start at position {start}; the first is 1")
    count = len(new) if length is None else length
    return text[: start - 1] + new + text[max(0, start - 1 + count) :]


def split_part(text: str, separator: str, n: int) -> str:
    """Return the nth part between separators, from the end if n is negative; '' if there is none."""
    if n == 0:
        raise DataError("the part number of split_part must not be 0; parts count from 1, or backwards from -1")
    pieces = text.split(separator) if separator else [text]
    index = n - 1 if n > 0 else len(pieces) + n
    return pieces[index] if 0 <= index < len(pieces) else ""


def code_point(text: str) -> int:
    """`ascii`: the code point of the first character; 0 for ''."""
    return ord(text[0]) if text else 0


def character(code: int) -> str:
    """`chr`: the character of a code point."""
    if code == 0:
        raise DataError("chr(0): no text can hold the character 0")
    if not 0 < code < 0x110000 or 0xD800 <= code < 0xE000:
        raise DataError(f"chr({code}): there is no such character")
    return chr(code)


def to_hex(number: int) -> str:
    """Format the number in hexadecimal; a negative one as its two's complement in 64 bits."""
    return format(number % (1 << 64), "x")


def to_hex_int(number: int) -> str:
    """`to_hex` in 32 bits."""
    return format(number % (1 << 32), "x")


# ---- whole columns -----------------------------------------------------------------------------------------------

SMALL = st.integers(-5, 8)
ANY = st.one_of(SMALL, st.sampled_from([-(2**63), 2**63 - 1, 2**31, -(2**31)]))
CASES: list[tuple[str, Callable[..., Any], tuple[st.SearchStrategy[Any], ...]]] = [
    ("lpad", lpad, (LETTERS, SMALL)),
    ("lpad", lpad, (LETTERS, SMALL, st.text("xy語", max_size=3))),
    ("rpad", rpad, (LETTERS, st.sampled_from([-(2**63), -1, 0, 3, 30, 70_000]), st.text("xy語", max_size=3))),
    ("split_part", split_part, (LETTERS, st.sampled_from(["a", "aa", "aba", "", "語", "ß.", "😀"]), ANY)),
    ("split_part", split_part, (st.text("a", max_size=9), st.sampled_from(["aa", "aaa", "a"]), SMALL)),
    ("overlay", overlay, (LETTERS, LETTERS, ANY)),
    ("overlay", overlay, (LETTERS, LETTERS, ANY, ANY)),
    ("translate", translated, (LETTERS, st.text("abA語ß", max_size=4), st.text("xya語", max_size=4))),
    ("translate", translated, (LETTERS, st.text("abA", max_size=4), st.text("xya", max_size=4))),
    ("initcap", initcap, (LETTERS,)),
    ("initcap", initcap, (st.text("abAZ1_ .", max_size=9),)),
    ("encode", text_encodings.encode, (LETTERS, st.sampled_from(["hex", "HEX", "base64"]))),
    ("ascii", code_point, (LETTERS,)),
    ("chr", character, (st.one_of(st.integers(0, 300), st.integers(-1, 0x110001)),)),
    ("chr", character, (st.integers(1, 127),)),
    ("to_hex", to_hex, (st.integers(-(2**63), 2**63 - 1),)),
    ("to_hex", to_hex, (st.integers(0, 300),)),
    ("to_hex_int", to_hex_int, (st.integers(-(2**31), 2**31 - 1),)),
]


def _types(function: Callable[..., Any]) -> list[DataType]:
    hints = {"str": STRING, "str | bytes": STRING, "int": BIGINT, "int | None": BIGINT}
    return [hints[str(hint)] for name, hint in function.__annotations__.items() if name != "return"]


def _vector(type_: DataType, values: Sequence[Any], form: str) -> Vector:
    """The values of one argument as a vector: a constant if they are one, else Text, Dict or Flat."""
    if form == "constant" and len(set(values)) == 1:
        return Const(type_, values[0], len(values))
    validity = np.array([value is not None for value in values])
    if type_ is STRING:
        if form != "dictionary":
            # A slice's rows lie in the middle of the buffer, between others.
            return Text(STRING, pa.array(["ßx", *values, "y語"], pa.string()).slice(1, len(values)))
        entries = sorted({value for value in values if value is not None} | {"語 unused"})
        codes = np.array([0 if value is None else entries.index(value) for value in values], np.uint8)
        return Dict(STRING, codes, pa.array(entries), validity)
    numbers = np.array([0 if value is None else value for value in values], np.int64)
    return Flat(BIGINT, numbers, None if validity.all() else validity)


@pytest.fixture(params=[64, 0], ids=["few rows of a combination", "many"])
def rows_of_a_combination(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute rows whose options differ one by one, as if combinations had few rows, or by combination."""
    monkeypatch.setattr(distinct, "_ROWS_OF_A_COMBINATION", request.param)


@pytest.mark.usefixtures("rows_of_a_combination")
@pytest.mark.parametrize(("name", "function", "arguments"), CASES)
@settings(deadline=None, max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_columns_are_computed_as_single_texts_are(
    name: str, function: Callable[..., Any], arguments: tuple[st.SearchStrategy[Any], ...], data: st.DataObject
) -> None:
    n = data.draw(st.integers(1, 8))
    columns, vectors = [], []
    for type_, argument in zip(_types(function), arguments, strict=False):
        form = data.draw(st.sampled_from(["constant", "dictionary", "plain", "plain"]))
        one = data.draw(st.lists(argument, min_size=1, max_size=1)) * n
        several = st.lists(st.one_of(st.none(), argument), min_size=n, max_size=n)
        columns.append(one if form == "constant" else data.draw(several))
        vectors.append(_vector(type_, columns[-1], form))
    result = INT if name == "ascii" else STRING
    try:
        expected = [None if None in row else function(*row) for row in zip(*columns, strict=True)]
    except DataError as error:
        shape = re.sub(r"-?\d+", "0", str(error))
        with pytest.raises(DataError) as raised:
            KERNELS[name](result, *vectors)
        assert re.sub(r"-?\d+", "0", str(raised.value)) == shape
        return
    found = KERNELS[name](result, *vectors).to_arrow()
    found.validate(full=True)
    assert found.to_pylist() == expected
    empty = KERNELS[name](result, *(vector.slice(0, 0) for vector in vectors))
    assert len(empty) == 0


@pytest.mark.parametrize("name", ["lpad", "rpad"])
def test_texts_beyond_two_gigabytes_are_refused(name: str) -> None:
    texts = Text(STRING, pa.array(["x"] * 100))
    with pytest.raises(DataError, match="the limit is 2147483647"):
        KERNELS[name](STRING, texts, Const(BIGINT, 1 << 27, 100))
    with pytest.raises(DataError, match="a text cannot be filled up by 1999999999 characters"):
        KERNELS[name](STRING, texts, Const(BIGINT, 2_000_000_000, 100))


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(st.one_of(st.none(), LETTERS), min_size=1, max_size=20), st.text("abß語😀.", max_size=3), st.booleans())
def test_positions_count_characters(texts: list[str | None], part: str, many: bool) -> None:
    texts = texts * 600 if many else texts
    # A slice's rows lie in the middle of the buffer, between others.
    whole = pa.array(["ßx", *texts, "y語"], pa.string())
    vector = Text(STRING, whole.slice(1, len(texts)))
    found = KERNELS["strpos"](INT, vector, Const(STRING, part, len(texts))).to_arrow().to_pylist()
    assert found == [None if text is None else text.find(part) + 1 for text in texts]


@pytest.mark.parametrize("text", ["plain", "ße語😀x"])
def test_characters_before_a_byte(text: str) -> None:
    texts = pa.array(["", text, "😀", text])
    sizes = [len(text[:i].encode()) for i in range(len(text) + 1)]
    for row in (1, 3):
        counts = characters_before(texts, np.full(len(sizes), row), np.array(sizes))
        assert counts.tolist() == list(range(len(text) + 1))

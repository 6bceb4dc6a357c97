"""`to_char` of whole columns, against a formatting of one timestamp at a time by Python's own calendar."""

from __future__ import annotations

import datetime
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import DataError
from nyala.executor.expressions.kernel_table import KERNELS
from nyala.executor.kernels.times.date_templates import DAYS, MONTHS, ROMAN, Piece, in_case_of, ordinal, pieces
from nyala.model.types import DATE, STRING, TIMESTAMP
from nyala.model.vectors.vector import Const, Flat, Narrow, Text

_NUMBERS: dict[str, tuple[int, Callable[[datetime.datetime], int]]] = {
    "YYYY": (4, lambda t: t.year),
    "YYY": (3, lambda t: t.year % 1000),
    "YY": (2, lambda t: t.year % 100),
    "Y": (1, lambda t: t.year % 10),
    "IYYY": (4, lambda t: t.isocalendar()[0]),
    "IYY": (3, lambda t: t.isocalendar()[0] % 1000),
    "IY": (2, lambda t: t.isocalendar()[0] % 100),
    "I": (1, lambda t: t.isocalendar()[0] % 10),
    "CC": (2, lambda t: (t.year + 99) // 100),
    "Q": (1, lambda t: (t.month + 2) // 3),
    "MM": (2, lambda t: t.month),
    "WW": (2, lambda t: (t.timetuple().tm_yday - 1) // 7 + 1),
    "IW": (2, lambda t: t.isocalendar()[1]),
    "W": (1, lambda t: (t.day - 1) // 7 + 1),
    "DDD": (3, lambda t: t.timetuple().tm_yday),
    "IDDD": (3, lambda t: (t.isocalendar()[1] - 1) * 7 + t.isoweekday()),
    "DD": (2, lambda t: t.day),
    "ID": (1, lambda t: t.isoweekday()),
    "D": (1, lambda t: t.isoweekday() % 7 + 1),
    "J": (7, lambda t: t.toordinal() + 1_721_425),
    "HH24": (2, lambda t: t.hour),
    "HH12": (2, lambda t: t.hour % 12 or 12),
    "HH": (2, lambda t: t.hour % 12 or 12),
    "MI": (2, lambda t: t.minute),
    "SSSSS": (5, lambda t: t.hour * 3600 + t.minute * 60 + t.second),
    "SSSS": (5, lambda t: t.hour * 3600 + t.minute * 60 + t.second),
    "SS": (2, lambda t: t.second),
    "MS": (3, lambda t: t.microsecond // 1000),
    "US": (6, lambda t: t.microsecond),
    **{f"FF{n}": (n, (lambda size: lambda t: t.microsecond // 10 ** (6 - size))(n)) for n in range(1, 7)},
}


def written(moment: datetime.date, template: str) -> str:
    """Compute `to_char(moment, template)`."""
    time = moment if isinstance(moment, datetime.datetime) else datetime.datetime.combine(moment, datetime.time())
    return "".join(_written(time, piece) for piece in pieces(template))


def _written(time: datetime.datetime, piece: Piece) -> str:
    if piece.name in _NUMBERS:
        width, value = _NUMBERS[piece.name]
        number = value(time)
        plain = (piece.fill and not piece.name.startswith(("FF", "MS", "US"))) or piece.name in ("J",)
        text = str(number) if plain else f"{number:0{width}d}"
        return text + ordinal(number, piece.ordinal)
    if not piece.name:
        return piece.written
    return _word(time, piece)


def _word(time: datetime.datetime, piece: Piece) -> str:
    name = piece.name
    if name in ("MONTH", "DAY"):
        word = MONTHS[time.month - 1] if name == "MONTH" else DAYS[time.weekday()]
        cased = in_case_of(word, piece.written)
        return cased if piece.fill else cased.ljust(9)
    if name in ("MON", "DY"):
        return in_case_of((MONTHS[time.month - 1] if name == "MON" else DAYS[time.weekday()])[:3], piece.written)
    if name == "RM":
        numeral = in_case_of(ROMAN[time.month - 1], piece.written)
        return numeral if piece.fill else numeral.ljust(4)
    if name == "Y,YYY":
        return f"{time.year // 1000},{time.year % 1000:03d}"
    if name == "TZ":
        return in_case_of("UTC", piece.written)
    if name == "OF":
        return "+00"
    half = ("AM" if time.hour < 12 else "PM") if name[0] in "AP" and name.replace(".", "") != "AD" else "AD"
    word = f"{half[0]}.{half[1]}." if "." in name else half
    return word.lower() if piece.written[0].islower() else word


MOMENTS = st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999))
NAMES = [*_NUMBERS, "MONTH", "Month", "month", "Mon", "DAY", "Day", "dy", "RM", "rm", "AM", "p.m.", "AD", "bc", "B.C.",
         "TZ", "tz", "OF", "Y,YYY"]  # fmt: skip
PARTS = st.one_of(
    st.builds(
        "{}{}{}".format, st.sampled_from(["", "FM", "fm"]), st.sampled_from(NAMES), st.sampled_from(["", "TH", "th"])
    ),
    st.sampled_from(["-", " ", "/", "ß", '"Tag "', '""', '"日"']),
)
TEMPLATES = st.lists(PARTS, max_size=6).map("".join)


@settings(deadline=None, max_examples=examples(300))
@given(st.lists(st.one_of(st.none(), MOMENTS), min_size=1, max_size=6), TEMPLATES, st.booleans())
def test_columns_are_written_as_single_timestamps_are(
    moments: list[datetime.datetime | None], template: str, dates: bool
) -> None:
    type_ = DATE if dates else TIMESTAMP
    values = [moment.date() if dates and moment is not None else moment for moment in moments]
    validity = np.array([value is not None for value in values])
    physical = np.array([0 if value is None else type_.to_physical(value) for value in values])
    base = int(physical.min())
    for vector in (
        Flat(type_, physical.astype(type_.dtype), None if validity.all() else validity),
        Narrow(type_, (physical - base).astype(np.uint64), base, validity),
    ):
        found = KERNELS["to_char_date"](STRING, vector, Const(STRING, template, len(values))).to_arrow()
        found.validate(full=True)
        assert found.to_pylist() == [None if value is None else written(value, template) for value in values]
    for name, words, place in (("dayname", DAYS, lambda t: t.weekday()), ("monthname", MONTHS, lambda t: t.month - 1)):
        found = KERNELS[name](STRING, Flat(type_, physical.astype(type_.dtype), validity)).to_arrow()
        assert found.to_pylist() == [None if value is None else words[place(value)] for value in values]


def test_each_row_may_have_a_template_of_its_own() -> None:
    moments = Flat(TIMESTAMP, np.arange(5) * 86_400_000_000)
    templates = Text(STRING, pa.array(["YYYY", None, "DD", "YYYY", "FMDD"]))
    assert KERNELS["to_char_date"](STRING, moments, templates).to_arrow().to_pylist() == [
        "1970", None, "03", "1970", "5"
    ]  # fmt: skip
    nothing = KERNELS["to_char_date"](STRING, moments.slice(0, 0), templates.slice(0, 0))
    assert nothing.to_arrow().to_pylist() == []
    assert KERNELS["to_char_date"](STRING, moments, Const(STRING, None, 5)).to_arrow().null_count == 5


def test_texts_beyond_two_gigabytes_are_refused() -> None:
    moments = Flat(TIMESTAMP, np.zeros(100_000, np.int64))
    with pytest.raises(DataError, match="the limit is 2147483647"):
        KERNELS["to_char_date"](STRING, moments, Const(STRING, "x" * 30_000, len(moments)))

"""INTERVALs as text, in every form that PostgreSQL reads.

| | |
|---|---|
| `1 year 2 months -3.5 days 4:05:06.7`, `@ 1 hour ago` | quantities with units, a clock; `ago` turns all signs |
| `1-2`, `3 4:05:06`, `1-2 3 4:05:06` | standard SQL: years-months, days, a clock |
| `P1Y2M3DT4H5M6S`, `P2W`, `P0001-02-03T04:05:06` | ISO 8601 |
| `90` with a unit behind, `10:30` with MINUTE TO SECOND | as the standard qualifies them |

A fraction of a unit is carried to smaller units: a year has 12 months, a month 30 days, a day 24 hours.
"""

from __future__ import annotations

import re
from fractions import Fraction

from ..errors import InvalidText, NumericOutOfRange
from ..model.types import Interval

MICROSECONDS = {
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
MONTHS = {"millennium": 12_000, "century": 1200, "decade": 120, "year": 12, "quarter": 3, "month": 1}
DAYS = {"week": 7, "day": 1}
UNITS = (*MONTHS, *DAYS, *MICROSECONDS)
_OTHER_NAMES = {
    "y": "year", "yr": "year", "mon": "month", "w": "week", "d": "day", "h": "hour", "hr": "hour", "min": "minute",
    "m": "minute", "sec": "second", "s": "second", "ms": "millisecond", "msec": "millisecond", "us": "microsecond",
    "usec": "microsecond", "centurie": "century", "c": "century", "dec": "decade", "mil": "millennium",
    "millennia": "millennium",
}  # fmt: skip
_DAY = 86_400_000_000
_QUANTITY = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+))\s*([A-Za-z]+)\s*")
_CLOCK = re.compile(r"\s*([+-]?)(\d+):(\d{1,2})(?::(\d{1,2}(?:\.\d*)?))?\s*")
_YEARS_MONTHS = re.compile(r"\s*([+-]?)(\d+)-(\d+)(?=\s|$)\s*")
_BARE = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+))(?=\s|$)\s*")
_ISO = re.compile(r"\s*P(?=[\dT+-.])(?P<date>[^T]*)(?:T(?P<time>.+))?\s*$")
_ISO_DATE = re.compile(r"([+-]?\d+(?:\.\d*)?)([YMWD])")
_ISO_TIME = re.compile(r"([+-]?\d+(?:\.\d*)?)([HMS])")
_ISO_UNITS = {"Y": "year", "M": "month", "W": "week", "D": "day"}
_ISO_TIME_UNITS = {"H": "hour", "M": "minute", "S": "second"}
_LONG_ISO = re.compile(r"\s*P(\d+)-(\d+)-(\d+)(?:T(\d+:\d+(?::\d+(?:\.\d*)?)?))?\s*$")


def unit_name(word: str) -> str | None:
    """The unit that a word means, in the singular; None for any other word.

    >>> unit_name("DAYS"), unit_name("mon"), unit_name("moons")
    ('day', 'month', None)
    """
    lower = word.lower()
    name = lower.removesuffix("s") if len(lower) > 2 else lower
    name = _OTHER_NAMES.get(lower, _OTHER_NAMES.get(name, name))
    return name if name in UNITS else None


class _Sum:
    """Accumulates months, days and microseconds of the fields; fractions are carried to smaller units."""

    def __init__(self) -> None:
        self.months = self.days = self.micros = Fraction(0)

    def add(self, amount: Fraction, unit: str) -> None:
        if unit in MONTHS:
            months = amount * MONTHS[unit]
            whole = Fraction(int(months))
            self.months += whole
            amount, unit = (months - whole) * 30, "day"
            if not amount:
                return
        if unit in DAYS:
            days = amount * DAYS[unit]
            whole = Fraction(int(days))
            self.days += whole
            self.micros += (days - whole) * _DAY
        else:
            self.micros += amount * MICROSECONDS[unit]

    def clock(self, found: re.Match[str], minutes_first: bool = False) -> None:
        sign, first, second, third = found.groups()
        units = ("minute", "second") if minutes_first and third is None else ("hour", "minute", "second")
        for part, unit in zip((first, second, third), units):
            if part is not None:
                self.add(Fraction(part) * (-1 if sign == "-" else 1), unit)

    def value(self, text: str, turned: bool = False) -> Interval:
        sign = -1 if turned else 1
        months, days, micros = (sign * round(part) for part in (self.months, self.days, self.micros))
        # PostgreSQL keeps months and days in 32 bits, microseconds in 64.
        if max(abs(months), abs(days)) >= 1 << 31 or abs(micros) >= 1 << 63:
            raise NumericOutOfRange(f"'{text}' is out of range for an INTERVAL")
        return Interval(months, days, micros)


def _refusal(text: str, why: str = "write for instance '1 month' or '90 days'") -> InvalidText:
    return InvalidText(f"'{text}' is not an INTERVAL; {why}")


def _unit(word: str, text: str) -> str:
    name = unit_name(word)
    if name is None:
        raise InvalidText(f"'{text}' is not an INTERVAL: there is no unit {word}; there are {', '.join(UNITS)}")
    return name


def read(text: str, unit: str | None = None) -> Interval:
    """The interval that a text represents; `unit` is the qualifier after it, `DAY` or `DAY TO SECOND`.

    >>> read("1-2"), read("1.5 months ago"), read("P1DT2H").microseconds
    (Interval(months=14, days=0, microseconds=0), Interval(months=-1, days=-15, microseconds=0), 7200000000)
    """
    words = (unit or "").upper().split()
    if text.strip().upper().startswith("P"):
        return _iso(text)
    total = _Sum()
    rest, turned = text, False
    if rest.lstrip().startswith("@"):
        rest = rest.lstrip()[1:]
    if re.search(r"\bago\s*$", rest, re.IGNORECASE):
        rest, turned = re.sub(r"\s*\bago\s*$", "", rest, flags=re.IGNORECASE), True
    position = 0
    while position < len(rest):
        position = _field(rest, position, words, total, text)
    if not rest.strip():
        raise _refusal(text)
    return total.value(text, turned)


def _field(rest: str, position: int, words: list[str], total: _Sum, text: str) -> int:
    """Adds the field at a position; returns the position after it."""
    if found := _QUANTITY.match(rest, position):
        total.add(Fraction(found[1]), _unit(found[2], text))
    elif found := _CLOCK.match(rest, position):
        total.clock(found, minutes_first=words[:1] == ["MINUTE"])
    elif found := _YEARS_MONTHS.match(rest, position):
        sign = -1 if found[1] == "-" else 1
        total.add(Fraction(sign * int(found[2])), "year")
        total.add(Fraction(sign * int(found[3])), "month")
    elif found := _BARE.match(rest, position):
        total.add(Fraction(found[1]), _unit_of_bare(rest, found.end(), words, text))
    else:
        raise _refusal(text)
    return found.end()


def _unit_of_bare(rest: str, end: int, words: list[str], text: str) -> str:
    """The unit of a number without one: days before a clock, else the qualifier's last unit, else seconds."""
    if _CLOCK.match(rest, end):
        return "day"
    if end < len(rest):
        raise _refusal(text, f"'{rest[:end].strip()}' needs a unit")
    unit = _unit(words[-1], text) if words else "second"
    if "." in rest and unit not in MICROSECONDS:
        raise _refusal(text, f"a fraction would be lost: write '{text.strip()} {unit}s', all in quotes")
    return unit


def _iso(text: str) -> Interval:
    total = _Sum()
    if match := _LONG_ISO.match(text):
        for part, unit in zip(match.groups(), ("year", "month", "day")):
            total.add(Fraction(part), unit)
        if match[4] is not None:
            clock = _CLOCK.match(match[4])
            assert clock is not None
            total.clock(clock)
        return total.value(text)
    match = _ISO.match(text)
    if match is None:
        raise _refusal(text)
    for body, pattern, units in ((match["date"], _ISO_DATE, _ISO_UNITS), (match["time"], _ISO_TIME, _ISO_TIME_UNITS)):
        if pattern.sub("", body or ""):
            raise _refusal(text, "in ISO 8601 it would be for instance 'P1Y2M3DT4H5M6S'")
        for amount, letter in pattern.findall(body or ""):
            total.add(Fraction(amount), units[letter])
    return total.value(text)

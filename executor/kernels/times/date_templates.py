"""`to_char`, `to_date` and `to_timestamp`: formatting and parsing of dates by template.

    'FMDay, DD Mon YYYY'  ──►  [Day, FM] [", "] [DD] [" "] [Mon] [" "] [YYYY]

A template is parsed once; text that is not a pattern, and text in double quotes, is literal. `FM` drops padding blanks
and zeros, `TH` or `th` behind a number makes it an ordinal, and the case of MONTH, Month or month is that of the
result.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from ....errors import InvalidText
from ..distinct import as_kernel

MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
          "December")  # fmt: skip
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII")

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
_UNPADDED = ("J", "SSSS", "SSSSS")
_WORDS = (
    "MONTH",
    "MON",
    "DAY",
    "DY",
    "RM",
    "AM",
    "PM",
    "A.M.",
    "P.M.",
    "AD",
    "BC",
    "A.D.",
    "B.C.",
    "TZ",
    "OF",
    "Y,YYY",
)
_PATTERNS = sorted([*_NUMBERS, *_WORDS], key=len, reverse=True)
_TOKEN = re.compile(
    rf'"(?P<quoted>[^"]*)"|(?P<fm>FM|FX)?(?P<name>{"|".join(map(re.escape, _PATTERNS))})(?P<th>TH)?|(?P<other>.)',
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Piece:
    """One part of a template: literal text if `name` is "", else the pattern in upper case as `written`."""

    name: str
    written: str
    fill: bool = False
    ordinal: str = ""


@lru_cache(maxsize=256)
def pieces(template: str) -> tuple[Piece, ...]:
    """Split a template into parts, in order."""
    parts = []
    for token in _TOKEN.finditer(template):
        if token["name"]:
            fill = (token["fm"] or "").upper() == "FM"
            parts.append(Piece(token["name"].upper(), token["name"], fill, token["th"] or ""))
        else:
            parts.append(Piece("", token["quoted"] if token["quoted"] is not None else token["other"]))
    return tuple(parts)


# ---- writing -------------------------------------------------------------------------------------------------------


def written(moment: datetime.date, template: str) -> str:
    """Compute `to_char(moment, template)`."""
    time = moment if isinstance(moment, datetime.datetime) else datetime.datetime.combine(moment, datetime.time())
    return "".join(_written(time, piece) for piece in pieces(template))


def _written(time: datetime.datetime, piece: Piece) -> str:
    if piece.name in _NUMBERS:
        width, value = _NUMBERS[piece.name]
        number = value(time)
        plain = (piece.fill and not piece.name.startswith(("FF", "MS", "US"))) or piece.name in _UNPADDED[:1]
        text = str(number) if plain else f"{number:0{width}d}"
        return text + _ordinal(number, piece.ordinal)
    if not piece.name:
        return piece.written
    return _word(time, piece)


def _word(time: datetime.datetime, piece: Piece) -> str:
    name = piece.name
    if name in ("MONTH", "DAY"):
        word = MONTHS[time.month - 1] if name == "MONTH" else DAYS[time.weekday()]
        cased = _like(word, piece.written)
        return cased if piece.fill else cased.ljust(9)
    if name in ("MON", "DY"):
        return _like((MONTHS[time.month - 1] if name == "MON" else DAYS[time.weekday()])[:3], piece.written)
    if name == "RM":
        numeral = _like(_ROMAN[time.month - 1], piece.written)
        return numeral if piece.fill else numeral.ljust(4)
    if name == "Y,YYY":
        return f"{time.year // 1000},{time.year % 1000:03d}"
    if name == "TZ":
        return _like("UTC", piece.written)
    if name == "OF":
        return "+00"
    half = ("AM" if time.hour < 12 else "PM") if name[0] in "AP" and name.replace(".", "") != "AD" else "AD"
    word = f"{half[0]}.{half[1]}." if "." in name else half
    return word.lower() if piece.written[0].islower() else word


def _like(word: str, written_as: str) -> str:
    """Return the word in the case of the pattern."""
    if written_as[0].islower():
        return word.lower()
    return word.upper() if written_as[1:2].isupper() else word


def _ordinal(number: int, wanted: str) -> str:
    if not wanted:
        return ""
    ending = "TH" if 10 < number % 100 < 14 else {1: "ST", 2: "ND", 3: "RD"}.get(number % 10, "TH")
    return ending if wanted.isupper() else ending.lower()


# ---- reading -------------------------------------------------------------------------------------------------------


def read(text: str, template: str) -> datetime.datetime:
    """Compute `to_timestamp(text, template)`; `InvalidText` names the place where text and template differ."""
    fields: dict[str, int] = {}
    parts = pieces(template)
    position = 0
    for index, piece in enumerate(parts):
        if not piece.name:
            position = _past_plain(text, position, piece.written)
            continue
        while position < len(text) and text[position] == " ":
            position += 1
        follows_digits = index + 1 < len(parts) and parts[index + 1].name in _NUMBERS
        position = _read_piece(text, position, piece, follows_digits, fields, template)
    return _moment(fields, text, template)


def _past_plain(text: str, position: int, plain: str) -> int:
    for char in plain:
        if (
            position < len(text)
            and (text[position] == char or not (text[position].isalnum() or text[position] in "+-"))
        ) or (position < len(text) and char.isalnum()):
            position += 1
    return position


def _read_piece(
    text: str, position: int, piece: Piece, follows_digits: bool, fields: dict[str, int], template: str
) -> int:
    name = piece.name
    rest = text[position:]
    if name in _NUMBERS:
        width = _NUMBERS[name][0]
        limit = f"{{1,{width}}}" if follows_digits or name in ("MS", "US") or name.startswith("FF") else "+"
        match = re.match(rf"[+-]?\d{limit}", rest) if name == "YYYY" else re.match(rf"\d{limit}", rest)
        if match is None:
            raise InvalidText(f"'{text}' has no number for {name} where the template '{template}' requires one")
        digits = match[0]
        if name in ("MS", "US") or name.startswith("FF"):
            fields["US"] = int(digits.ljust(6, "0"))
        else:
            fields["HH12" if name == "HH" else name] = int(digits)
        return position + len(digits) + (2 if piece.ordinal else 0)
    if name in ("MONTH", "MON", "DAY", "DY"):
        words = MONTHS if name.startswith("M") else DAYS
        for number, word in enumerate(words, 1):
            shown = word[:3] if name in ("MON", "DY") else word
            if rest.lower().startswith(shown.lower()):
                if words is MONTHS:
                    fields["MM"] = number
                return position + len(shown)
        raise InvalidText(f"'{text}' has no name for {name} where the template '{template}' requires one")
    if name.replace(".", "") in ("AM", "PM"):
        match = re.match(r"([AP])\.?M\.?", rest, re.IGNORECASE)
        if match is None:
            raise InvalidText(f"'{text}' has neither AM nor PM where the template '{template}' requires it")
        fields["PM"] = int(match[1].upper() == "P")
        return position + len(match[0])
    if name in ("AD", "A.D."):
        return position + len(name)
    raise InvalidText(f"the pattern {name} can be used in to_char only")


def _moment(fields: dict[str, int], text: str, template: str) -> datetime.datetime:
    try:
        if "J" in fields:
            day = datetime.date.fromordinal(fields["J"] - 1_721_425)
        elif "IYYY" in fields:
            day = datetime.date.fromisocalendar(fields["IYYY"], fields.get("IW", 1), fields.get("ID", 1))
        else:
            year = _year(fields)
            day = datetime.date(year, fields.get("MM", 1), fields.get("DD", 1))
            if "DDD" in fields:
                day = datetime.date(year, 1, 1) + datetime.timedelta(days=fields["DDD"] - 1)
        hour = fields.get("HH24", 0)
        if "HH12" in fields:
            if not 1 <= fields["HH12"] <= 12:
                raise ValueError("an hour of a 12-hour clock is 1 to 12")
            hour = fields["HH12"] % 12 + 12 * fields.get("PM", 0)
        seconds = fields.get("SSSSS", fields.get("SSSS"))
        if seconds is not None:
            time = datetime.timedelta(seconds=seconds, microseconds=fields.get("US", 0))
            return datetime.datetime.combine(day, datetime.time()) + time
        clock = datetime.time(hour, fields.get("MI", 0), fields.get("SS", 0), fields.get("US", 0))
    except (ValueError, OverflowError) as error:
        raise InvalidText(f"'{text}' is not a timestamp in the template '{template}': {error}") from None
    return datetime.datetime.combine(day, clock)


def _year(fields: dict[str, int]) -> int:
    if "YYYY" in fields:
        return fields["YYYY"]
    for name in ("YYY", "YY", "Y"):
        if name in fields:
            short = fields[name]
            if short >= 1000:
                return short
            # PostgreSQL: the year nearest to 2020.
            return short + (2000 if short < 70 else 1900 if short < 100 else 2000 if short < 520 else 1000)
    return 1


def read_date(text: str, template: str) -> datetime.date:
    """Compute `to_date(text, template)`."""
    return read(text, template).date()


KERNELS = {
    "to_char_date": as_kernel(written),
    "to_date": as_kernel(read_date),
    "to_timestamp": as_kernel(read),
    "dayname": as_kernel(lambda day: DAYS[day.weekday()]),
    "monthname": as_kernel(lambda day: MONTHS[day.month - 1]),
}

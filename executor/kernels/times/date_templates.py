"""Templates of dates: their parts, and the reading of one text by them.

    'FMDay, DD Mon YYYY'  ──►  [Day, FM] [", "] [DD] [" "] [Mon] [" "] [YYYY]

A template is parsed once; text that is not a pattern, and text in double quotes, is literal. `FM` drops padding blanks
and zeros, `TH` or `th` behind a number makes it an ordinal, and the case of MONTH, Month or month is that of the
result.
"""

from __future__ import annotations

import datetime
import re
from functools import lru_cache

from ....errors import InvalidText
from ....model.lazy_dataclass import dataclass

MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
          "December")  # fmt: skip
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII")

NUMBER_WIDTHS: dict[str, int] = {
    "YYYY": 4, "YYY": 3, "YY": 2, "Y": 1, "IYYY": 4, "IYY": 3, "IY": 2, "I": 1, "CC": 2, "Q": 1, "MM": 2, "WW": 2,
    "IW": 2, "W": 1, "DDD": 3, "IDDD": 3, "DD": 2, "ID": 1, "D": 1, "J": 7, "HH24": 2, "HH12": 2, "HH": 2, "MI": 2,
    "SSSSS": 5, "SSSS": 5, "SS": 2, "MS": 3, "US": 6,
    **{f"FF{n}": n for n in range(1, 7)},
}  # fmt: skip
"""The patterns of numbers, and the number of digits of each."""
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
_PATTERNS = sorted([*NUMBER_WIDTHS, *_WORDS], key=len, reverse=True)
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


def in_case_of(word: str, written_as: str) -> str:
    """Return the word in the case of the pattern."""
    if written_as[0].islower():
        return word.lower()
    return word.upper() if written_as[1:2].isupper() else word


def ordinal(number: int, wanted: str) -> str:
    """Return the ending of an ordinal number, in the case of `wanted`; "" if that is empty."""
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
        follows_digits = index + 1 < len(parts) and parts[index + 1].name in NUMBER_WIDTHS
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
    if name in NUMBER_WIDTHS:
        width = NUMBER_WIDTHS[name]
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

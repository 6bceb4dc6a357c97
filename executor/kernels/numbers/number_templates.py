"""Templates of numbers, and the formatting and reading of one number by them.

| pattern | |
|---|---|
| `9` `0` | a digit; a `0` is shown even without a digit |
| `.` `D` | the decimal point |
| `,` `G` | the group separator, blank before the first digit |
| `S` `MI` `PL` `SG` `PR` | the sign: next to the digits, `-` or blank, `+` or blank, at its place, in angle brackets |
| `FM` | without blanks and without trailing zeros of `9` |
| `V` | multiplied by 10 for each digit behind it |
| `TH` `th` | an ordinal |
| `EEEE` | with an exponent |
| `RN` `rn` | a Roman numeral |

Digits that do not fit are shown as `#`.
"""

from __future__ import annotations

import decimal
import re
from functools import lru_cache
from typing import Any

from ....errors import InvalidText
from ....model.lazy_dataclass import dataclass

_TOKEN = re.compile(r'"([^"]*)"|(FM|EEEE|MI|PL|SG|PR|TH|RN|[90.,DGSV])|(.)', re.IGNORECASE | re.DOTALL)
_NUMERALS = (
    (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"),
    (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
)  # fmt: skip
_EXACT = decimal.Context(prec=500, rounding=decimal.ROUND_HALF_UP)


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template: `whole` and `fraction` are the slots (9, 0, G or text) on both sides of the point."""

    before: str
    whole: tuple[str, ...]
    point: bool
    fraction: tuple[str, ...]
    sign: str
    sign_first: bool
    fill: bool
    ordinal: str
    exponent: bool
    roman: str
    shift: int = 0

    @property
    def digits(self) -> int:
        """Number of digits before the point."""
        return sum(slot in ("9", "0") for slot in self.whole)

    @property
    def scale(self) -> int:
        """Number of digits after the point."""
        return sum(slot in ("9", "0") for slot in self.fraction)


@lru_cache(maxsize=256)
def parsed(template: str) -> Template:
    """Parse a template."""
    slots: tuple[list[str], list[str]] = ([], [])
    point = fill = exponent = False
    sign, sign_first, ordinal, roman, before = "", True, "", "", ""
    shift: int | None = None
    for token in _TOKEN.finditer(template):
        word = (token[2] or "").upper()
        seen = bool(slots[0] or slots[1] or point)
        if word in ("9", "0"):
            slots[point].append(word)
            shift = None if shift is None else shift + 1
        elif word == "V":
            shift = 0
        elif word in (",", "G"):
            slots[point].append(",")
        elif word in (".", "D"):
            point = True
        elif word in ("S", "MI", "PL", "SG", "PR"):
            sign, sign_first = word, not seen
            if word == "SG" and seen:
                slots[point].append("SG")
        elif word == "FM":
            fill = True
        elif word == "EEEE":
            exponent = True
        elif word == "TH":
            ordinal = token[2]
        elif word == "RN":
            roman = token[2]
        else:
            text = token[1] if token[1] is not None else token[3]
            if seen:
                slots[point].append("=" + text)
            else:
                before += text
    whole, fraction = tuple(slots[0]), tuple(slots[1])
    return Template(before, whole, point, fraction, sign, sign_first, fill, ordinal, exponent, roman, shift or 0)


def written(number: Any, template: str) -> str:
    """Compute `to_char(number, template)`."""
    form = parsed(template)
    value = decimal.Decimal(repr(number)) if isinstance(number, float) else decimal.Decimal(number)
    if form.roman:
        return _roman(value, form)
    if form.exponent:
        return _scientific(value, form)
    if not value.is_finite():
        return "#" * (form.digits + form.point + form.scale + 1)
    rounded = value.scaleb(form.shift, _EXACT).quantize(decimal.Decimal(1).scaleb(-form.scale), context=_EXACT)
    negative = rounded < 0
    text = format(abs(rounded), "f")
    digits, _, decimals = text.partition(".")
    digits = digits.lstrip("0")
    if len(digits) > form.digits:
        digits = "#" * form.digits
        decimals = "#" * form.scale
    ordinal = "" if not form.ordinal or negative or form.point else _ordinal(int(rounded), form.ordinal)
    return laid_out(form, negative, digits, decimals, ordinal)


def laid_out(form: Template, negative: bool, digits: str, decimals: str, ordinal: str) -> str:
    """Put the digits of a number into the slots of a template.

    Parameters
    ----------
    digits : those before the point, without leading zeros; at most as many as there are slots
    decimals : as many as there are slots behind the point
    ordinal : the ending of an ordinal number, or ""
    """
    body, blanks = _whole(form, digits, bool(decimals))
    tail = _fraction(form, decimals)
    if "SG" in form.whole + form.fraction:
        mark = "-" if negative else "+"
        return form.before + " " * blanks + (body + tail).replace("SG", mark)
    if form.fill and body == "" and form.point and tail.strip("0") == "." and form.digits:
        body = "0"
    return form.before + _signed(form, negative, body + tail + ordinal, blanks)


def _whole(form: Template, digits: str, has_fraction: bool) -> tuple[str, int]:
    """Put the digits before the point into their slots; also return the number of blanks before them."""
    first_zero = next((i for i, slot in enumerate(form.whole) if slot == "0"), None)
    if not digits and not has_fraction and first_zero is None:
        digits = "0"
    places = [i for i, slot in enumerate(form.whole) if slot in ("9", "0")]
    start = places[len(places) - len(digits)] if digits and places else len(form.whole)
    if first_zero is not None:
        start = min(start, first_zero)
    rest = iter(digits.rjust(sum(place >= start for place in places), "0"))
    out, blanks = [], 0
    for i, slot in enumerate(form.whole):
        if i < start:
            if slot.startswith("="):
                out.append(slot[1:])
            else:
                blanks += 1
        elif slot in ("9", "0"):
            out.append(next(rest))
        else:
            out.append(slot.removeprefix("="))
    return "".join(out), 0 if form.fill else blanks


def _fraction(form: Template, decimals: str) -> str:
    if not form.point:
        return ""
    kept = len(decimals)
    if form.fill:
        slots = [slot for slot in form.fraction if slot in ("9", "0")]
        least = max((i + 1 for i, slot in enumerate(slots) if slot == "0"), default=0)
        kept = max(len(decimals.rstrip("0")), least)
    rest = iter(decimals[:kept])
    return "." + "".join(next(rest, "") if slot in ("9", "0") else slot.removeprefix("=") for slot in form.fraction)


def _signed(form: Template, negative: bool, body: str, blanks: int) -> str:
    pad = " " * blanks
    if form.sign == "PR":
        return f"{pad}<{body}>" if negative else body if form.fill else f"{pad} {body} "
    if form.sign == "":
        return pad + ("-" if negative else "" if form.fill else " ") + body
    mark = "-" if negative else "+"
    if form.sign == "MI":
        mark = "-" if negative else "" if form.fill else " "
    elif form.sign == "PL":
        minus = "-" if negative else "" if form.fill else " "
        mark = ("" if form.fill else " ") if negative else "+"
        if form.sign_first:
            return pad + (minus if negative else mark) + body
        return pad + minus + body + mark
    if form.sign == "S" and form.sign_first:
        return pad + mark + body
    return mark + pad + body if form.sign_first else pad + body + mark


def _ordinal(number: int, wanted: str) -> str:
    ending = "TH" if 10 < number % 100 < 14 else {1: "ST", 2: "ND", 3: "RD"}.get(number % 10, "TH")
    return ending if wanted.isupper() else ending.lower()


def _roman(value: decimal.Decimal, form: Template) -> str:
    number = int(value.to_integral_value(decimal.ROUND_HALF_UP)) if value.is_finite() else 0
    text = ""
    for size, numeral in _NUMERALS if 0 < number < 4000 else ():
        text += numeral * (number // size)
        number %= size
    text = text or "#" * 15
    text = text.lower() if form.roman.islower() else text
    return text if form.fill else text.rjust(15)


def _scientific(value: decimal.Decimal, form: Template) -> str:
    if not value.is_finite():
        return "#" * (form.scale + 8)
    text = format(value, f".{form.scale}e")
    mantissa, exponent = text.split("e")
    power = f"e{exponent[0]}{int(exponent[1:]):02d}"
    return ("" if mantissa.startswith("-") or form.fill else " ") + mantissa + power


def read(text: str, template: str) -> decimal.Decimal:
    """`to_number(text, template)`: the digits that the template admits."""
    form = parsed(template)
    plain = re.sub(r"[^0-9.+\-<>]", "", text)
    negative = "-" in plain or ("<" in plain and ">" in plain)
    digits = re.sub(r"[^0-9.]", "", plain)
    if not re.fullmatch(r"\d+\.?\d*|\.\d+", digits):
        raise InvalidText(f"'{text}' is not a number by the template '{template}'")
    whole, _, decimals = digits.partition(".")
    value = decimal.Decimal(f"{whole[: form.digits] or '0'}.{decimals[: form.scale] or '0'}")
    return -value if negative else value

"""Functions of dates, timestamps and intervals."""

from __future__ import annotations

from ...errors import InternalError, TypeMismatch
from ...model.types import BIGINT, DATE, DECIMAL, DOUBLE, INT, INTERVAL, STRING, TIMESTAMP, DataType, Kind
from ..arithmetic import operate
from ..coercion import cast, convert, is_text_literal
from ..expressions import Expr, Literal
from ..literals import unit_name
from .arguments import moment, number, refuse, text, whole
from .function import Args, Function, call

DATE_PARTS = ("year", "quarter", "month", "week", "day", "dow", "doy", "hour", "minute", "second")
"""Functions of one DATE or TIMESTAMP: BIGINT each. `week` is ISO 8601's, `dow` counts from Sunday = 0, `doy` from 1,
`second` is cut to whole seconds."""

FIELDS = (
    *("millennium", "century", "decade", "year", "isoyear", "quarter", "month", "week", "day", "doy", "dow", "isodow"),
    *("hour", "minute", "second", "milliseconds", "microseconds", "epoch", "julian"),
)
"""The fields of EXTRACT and date_part. `second`, `milliseconds` and `epoch` have fractions, as DECIMALs."""

PARTS = (*FIELDS, "seconds")
"""Canonical names that EXTRACT is bound to: `seconds` has its fraction, `second` has none."""

TRUNCATIONS = (
    *("millennium", "century", "decade", "year", "quarter", "month", "week", "day", "hour", "minute", "second"),
    *("milliseconds", "microseconds"),
)
"""Units of `date_trunc(unit, value)`, in lower case, coarse to fine."""

_OF_A_DAY = ("hour", "minute", "second", "milliseconds", "microseconds")
_NOT_OF_INTERVALS = ("isoyear", "week", "doy", "dow", "isodow", "julian")
_OTHER_NAMES = {"millisecond": "milliseconds", "microsecond": "microseconds", "millennia": "millennium",
                "centuries": "century", "dayofweek": "dow", "dayofyear": "doy", "weekday": "dow"}  # fmt: skip


def field_name(word: str) -> str:
    """The field or unit for a word, whatever its case and number; the word itself if there is none."""
    name = word.strip().lower()
    if name in FIELDS:
        return name
    name = unit_name(name) or name
    name = _OTHER_NAMES.get(name, name)
    return name if name in FIELDS else name.removesuffix("s")


def _named(function: Function, arg: Expr, known: tuple[str, ...]) -> str:
    if not isinstance(arg, Literal) or not isinstance(arg.value, str):
        raise TypeMismatch(f"the first argument of {function.name} must be a quoted unit: {', '.join(known)}")
    name = field_name(arg.value)
    if name not in known:
        raise TypeMismatch(f"{function.name} has no unit '{arg.value}'; it has {', '.join(known)}")
    return name


# ---- parts -----------------------------------------------------------------------------------------------------------


def date_part(name: str, arg: Expr) -> Expr:
    """`EXTRACT(name FROM arg)`, `name` one of `FIELDS`."""
    arg = arg if arg.type.kind is Kind.INTERVAL else moment(_EXTRACT, arg)
    if arg.type == DATE and name in _OF_A_DAY:
        raise TypeMismatch(f"a DATE has no {name}; cast it to TIMESTAMP if 0 is meant")
    if arg.type == INTERVAL and name in _NOT_OF_INTERVALS:
        raise TypeMismatch(f"an INTERVAL has no {name}: it does not say when it begins")
    if name == "julian" and arg.type == TIMESTAMP:
        raise TypeMismatch("julian is a number of days: cast the TIMESTAMP to DATE")
    return call(_part_type(name, arg.type), "seconds" if name == "second" else name, arg)


def _part_type(name: str, type_: DataType) -> DataType:
    if name == "epoch":
        return BIGINT if type_ == DATE else DECIMAL(18, 6)
    return {"second": DECIMAL(8, 6), "milliseconds": DECIMAL(8, 3)}.get(name, BIGINT)


def _part(function: Function, args: Args) -> Expr:
    """A function named after the field that it extracts, as a whole number."""
    if function.name == "second" and args[0].type != DATE:
        arg = args[0] if args[0].type == INTERVAL else moment(function, args[0])
        if arg.type != DATE:
            return call(BIGINT, "second", arg)
    return date_part(function.name, args[0])


def _part_by_name(function: Function, args: Args) -> Expr:
    return date_part(_named(function, args[0], FIELDS), args[1])


def _date_trunc(function: Function, args: Args) -> Expr:
    """date_trunc, for which DATE stays DATE; PostgreSQL would return a timestamp."""
    name = _named(function, args[0], TRUNCATIONS)
    arg = args[1] if args[1].type == INTERVAL else moment(function, args[1], 1)
    if arg.type == DATE and name in _OF_A_DAY:
        return arg
    if arg.type == INTERVAL and name == "week":
        raise TypeMismatch("an INTERVAL has no weeks to be cut to")
    return call(arg.type, "date_trunc", Literal(STRING, False, name), arg)


_EXTRACT = Function("extract", "EXTRACT(field FROM date, timestamp or interval)", 1, 1, _part)

_PARTS = {
    "year": ("The year", "2001"),
    "quarter": ("The quarter, 1 to 4", "1"),
    "month": ("The month, 1 to 12", "2"),
    "week": ("The week of the year, as ISO 8601 counts them", "7"),
    "day": ("The day of the month", "16"),
    "dow": ("The day of the week, Sunday is 0", "5"),
    "doy": ("The day of the year", "47"),
    "hour": ("The hour, 0 to 23", "20"),
    "minute": ("The minute", "38"),
    "second": ("The second, without its fraction", "40"),
    "isodow": ("The day of the week, Monday is 1 and Sunday 7", "5"),
    "isoyear": ("The year that the week belongs to, as ISO 8601 counts them", "2001"),
    "epoch": ("Seconds since 1970-01-01 00:00 UTC", "982355920.120000"),
}
_PART_FUNCTIONS = tuple(
    Function(
        name, f"{name}(date, timestamp or interval)", 1, 1, _part,
        fallible=name == "epoch", null_with_arguments=name in DATE_PARTS,
        calls=("second", "seconds") if name == "second" else (name,),
        description=description, example=f"{name}(TIMESTAMP '2001-02-16 20:38:40.12')", result=result,
    )
    for name, (description, result) in _PARTS.items()
)  # fmt: skip


# ---- spans -----------------------------------------------------------------------------------------------------------


def _age(function: Function, args: Args) -> Expr:
    if len(args) == 1:
        if not args[0].type.is_integer:
            raise refuse(function, args[0])
        return Literal(INT, False, 0)  # of a transaction's number, which PostgreSQL's clients give: it has no age
    later, earlier = (cast(moment(function, arg, position), TIMESTAMP) for position, arg in enumerate(args))
    return call(INTERVAL, "age", later, earlier)


def _span(function: Function, arg: Expr, position: int = 0) -> Expr:
    if arg.type.kind is Kind.NULL or is_text_literal(arg):
        return convert(arg, INTERVAL)
    if arg.type != INTERVAL:
        raise refuse(function, arg, position)
    return arg


def _justify(function: Function, args: Args) -> Expr:
    return call(INTERVAL, function.name, _span(function, args[0]))


def _shift(function: Function, args: Args) -> Expr:
    """date_add and date_subtract."""
    operator = "add" if function.name == "date_add" else "sub"
    return operate(operator, moment(function, args[0]), _span(function, args[1], 1))


def _add_months(function: Function, args: Args) -> Expr:
    arg = moment(function, args[0])
    return call(arg.type, "add_months", arg, whole(function, args[1], 1))


def _months_between(function: Function, args: Args) -> Expr:
    return call(DOUBLE, "months_between", *(moment(function, arg, position) for position, arg in enumerate(args)))


def _difference(function: Function, args: Args) -> Expr:
    name = _named(function, args[0], TRUNCATIONS)
    start, end = (moment(function, arg, position) for position, arg in enumerate(args[1:], 1))
    return call(BIGINT, "datediff", Literal(STRING, False, name), start, end)


def _date_bin(function: Function, args: Args) -> Expr:
    origin = args[2] if len(args) > 2 else Literal(TIMESTAMP, False, 0)
    found = (cast(moment(function, arg, position), TIMESTAMP) for position, arg in enumerate((args[1], origin), 1))
    return call(TIMESTAMP, "date_bin", _span(function, args[0]), *found)


# ---- making ----------------------------------------------------------------------------------------------------------


def _last_day(function: Function, args: Args) -> Expr:
    return call(DATE, "last_day", moment(function, args[0]))


def _name_of_day(function: Function, args: Args) -> Expr:
    return call(STRING, function.name, cast(moment(function, args[0]), DATE))


def _make_date(function: Function, args: Args) -> Expr:
    return call(DATE, "make_date", *(whole(function, arg, position) for position, arg in enumerate(args)))


def _make_timestamp(function: Function, args: Args) -> Expr:
    numbers = (whole(function, arg, position) for position, arg in enumerate(args[:5]))
    return call(TIMESTAMP, "make_timestamp", *numbers, cast(number(function, args[5], 5), DOUBLE))


def _make_interval(function: Function, args: Args) -> Expr:
    zeros = (Literal(BIGINT, False, 0),) * (7 - len(args))
    filled = (*args, *zeros)
    numbers = (whole(function, arg, position) for position, arg in enumerate(filled[:6]))
    return call(INTERVAL, "make_interval", *numbers, cast(number(function, filled[6], 6), DOUBLE))


def _to_char(function: Function, args: Args) -> Expr:
    value = args[0]
    template = text(function, args[1], 1)
    if value.type.kind in (Kind.DATE, Kind.TIMESTAMP):
        return call(STRING, "to_char_date", value, template)
    if value.type.is_numeric or value.type.kind is Kind.NULL:
        return call(
            STRING, "to_char_number", convert(value, DOUBLE) if value.type.kind is Kind.NULL else value, template
        )
    raise refuse(function, value)


def _to_date(function: Function, args: Args) -> Expr:
    return call(DATE, "to_date", text(function, args[0]), text(function, args[1], 1))


def _to_timestamp(function: Function, args: Args) -> Expr:
    if len(args) == 1:
        return call(TIMESTAMP, "from_epoch", number(function, args[0]))
    return call(TIMESTAMP, "to_timestamp", text(function, args[0]), text(function, args[1], 1))


def _to_number(function: Function, args: Args) -> Expr:
    template = args[1]
    if not isinstance(template, Literal) or not isinstance(template.value, str):
        raise TypeMismatch("the template of to_number must be a constant, for it decides the result's scale")
    decimals = template.value.upper().replace("D", ".").partition(".")[2]
    scale = sum(char in "90" for char in decimals)
    return call(DECIMAL(38, min(scale, 38)), "to_number", text(function, args[0]), template)


def _of_the_statement(function: Function, args: Args) -> Expr:
    raise InternalError(f"{function.name} stands for the statement's time, which the binder of expressions knows")


CLOCKS = {"now": TIMESTAMP, "current_timestamp": TIMESTAMP, "localtimestamp": TIMESTAMP, "current_date": DATE,
          "transaction_timestamp": TIMESTAMP, "statement_timestamp": TIMESTAMP}  # fmt: skip
"""Functions without arguments that return the statement's time, and their types."""

DATES = (
    Function(
        "date_part", "date_part('field', date, timestamp or interval)", 2, 2, _part_by_name, calls=PARTS,
        description=f"A field of the value; also EXTRACT(field FROM value): {', '.join(FIELDS)}",
        example="date_part('isodow', DATE '2001-02-16')", result="5",
    ),
    Function(
        "date_trunc", "date_trunc('unit', date, timestamp or interval)", 2, 2, _date_trunc,
        fallible=True, null_with_arguments=True,
        description=f"The value truncated to the unit: {', '.join(TRUNCATIONS)}",
        example="date_trunc('month', DATE '2001-02-16')", result="2001-02-01",
    ),
    *_PART_FUNCTIONS,
    Function(
        "dayname", "dayname(date or timestamp)", 1, 1, _name_of_day,
        description="The name of the day in English", example="dayname(DATE '2001-02-16')", result="Friday",
    ),
    Function(
        "monthname", "monthname(date or timestamp)", 1, 1, _name_of_day,
        description="The name of the month in English", example="monthname(DATE '2001-02-16')", result="February",
    ),
    Function(
        "last_day", "last_day(date or timestamp)", 1, 1, _last_day,
        description="The last day of the month", example="last_day(DATE '2024-02-10')", result="2024-02-29",
    ),
    Function(
        "age", "age(timestamp, timestamp)", 1, 2, _age,
        description="The interval from the second to the first, in years, months and days",
        example="age(TIMESTAMP '2001-04-10', TIMESTAMP '1957-06-13')", result="43 years 9 mons 27 days",
    ),
    Function(
        "date_add", "date_add(date or timestamp, interval)", 2, 2, _shift, calls=("add",),
        description="The date or timestamp plus the interval; also value + interval",
        example="date_add(TIMESTAMP '2021-10-31 00:00:00', INTERVAL '1 day 02:00')", result="2021-11-01 02:00:00",
    ),
    Function(
        "date_subtract", "date_subtract(date or timestamp, interval)", 2, 2, _shift, calls=("sub",),
        aliases=("date_sub",), description="The date or timestamp minus the interval; also value - interval",
        example="date_subtract(TIMESTAMP '2021-03-31', INTERVAL '1 month')", result="2021-02-28 00:00:00",
    ),
    Function(
        "add_months", "add_months(date or timestamp, months)", 2, 2, _add_months, fallible=True,
        description="The date or timestamp n months later, at most the last day of that month",
        example="add_months(DATE '2024-01-31', 1)", result="2024-02-29",
    ),
    Function(
        "months_between", "months_between(date or timestamp, date or timestamp)", 2, 2, _months_between,
        description="The months from the second to the first; remaining days count as 31sts of a month",
        example="months_between(DATE '2024-03-31', DATE '2024-02-29')", result="1",
    ),
    Function(
        "datediff", "datediff('unit', start, end)", 3, 3, _difference, aliases=("date_diff",),
        description=f"The number of boundaries of the unit between two times: {', '.join(TRUNCATIONS)}",
        example="datediff('month', DATE '2024-01-31', DATE '2024-02-01')", result="1",
    ),
    Function(
        "date_bin", "date_bin(stride, timestamp [, origin])", 2, 3, _date_bin, fallible=True,
        description="The start of the bin that contains the timestamp; bins are as long as the stride and are "
            "counted from the origin (1970)",
        example="date_bin(INTERVAL '15 minutes', TIMESTAMP '2020-02-11 15:44:17', TIMESTAMP '2001-01-01')",
        result="2020-02-11 15:30:00",
    ),
    Function(
        "justify_days", "justify_days(interval)", 1, 1, _justify, fallible=True,
        description="The interval with each 30 days converted to a month",
        example="justify_days(INTERVAL '1 year 65 days')",
        result="1 year 2 mons 5 days",
    ),
    Function(
        "justify_hours", "justify_hours(interval)", 1, 1, _justify, fallible=True,
        description="The interval with each 24 hours converted to a day",
        example="justify_hours(INTERVAL '50 hours 10 minutes')",
        result="2 days 02:10:00",
    ),
    Function(
        "justify_interval", "justify_interval(interval)", 1, 1, _justify, fallible=True,
        description="The interval with hours converted to days and days to months, and with one sign for all parts",
        example="justify_interval(INTERVAL '1 mon -1 hour')", result="29 days 23:00:00",
    ),
    Function(
        "make_date", "make_date(year, month, day)", 3, 3, _make_date, fallible=True,
        description="The date from year, month and day", example="make_date(2013, 7, 15)", result="2013-07-15",
    ),
    Function(
        "make_timestamp", "make_timestamp(year, month, day, hour, minute, second)", 6, 6, _make_timestamp,
        fallible=True,
        description="The timestamp from six numbers; seconds may have a fraction",
        example="make_timestamp(2013, 7, 15, 8, 15, 23.5)", result="2013-07-15 08:15:23.500000",
    ),
    Function(
        "make_interval", "make_interval(years [, months, weeks, days, hours, minutes, seconds])", 1, 7, _make_interval,
        fallible=True,
        description="The interval from up to seven numbers", example="make_interval(0, 2, 0, 10)",
        result="2 mons 10 days",
    ),
    Function(
        "to_char", "to_char(date, timestamp or number, 'template')", 2, 2, _to_char, category="formatting",
        calls=("to_char_date", "to_char_number"),
        description="The value formatted by a template: YYYY MM DD HH24 HH12 MI SS MS US Month Mon Day Dy Q IW AM ... "
        "for dates, 9 0 . , S MI PR FM TH EEEE RN for numbers",
        example="to_char(TIMESTAMP '2002-04-20 17:31:12', 'Dy, DD Mon YYYY HH12:MI:SS')",
        result="Sat, 20 Apr 2002 05:31:12",
    ),
    Function(
        "to_date", "to_date(text, 'template')", 2, 2, _to_date, fallible=True, category="formatting",
        description="The date parsed from a text by a template", example="to_date('05 Dec 2000', 'DD Mon YYYY')",
        result="2000-12-05",
    ),
    Function(
        "to_timestamp", "to_timestamp(text, 'template') or to_timestamp(seconds)", 1, 2, _to_timestamp, fallible=True,
        category="formatting", calls=("to_timestamp", "from_epoch"),
        description="The timestamp parsed from a text by a template, or n seconds after 1970-01-01",
        example="to_timestamp(1284352323)", result="2010-09-13 04:32:03",
    ),
    Function(
        "to_number", "to_number(text, 'template')", 2, 2, _to_number, fallible=True, category="formatting",
        description="The number parsed from a text by a template", example="to_number('12,454.8-', '99G999D9S')",
        result="-12454.8",
    ),
    Function(
        "now", "now()", 0, 0, _of_the_statement, calls=(),
        aliases=("current_timestamp", "localtimestamp", "transaction_timestamp", "statement_timestamp"),
        description="The time at which the statement began, in UTC; also CURRENT_TIMESTAMP and LOCALTIMESTAMP",
        example="now() = CURRENT_TIMESTAMP", result="true",
    ),
    Function(
        "current_date", "current_date", 0, 0, _of_the_statement, calls=(),
        description="The date on which the statement began, in UTC", example="CURRENT_DATE = CAST(now() AS DATE)",
        result="true",
    ),
)  # fmt: skip

"""SetSessionOptions and GetSessionOptions: the settings of the session, with "catalog" and "schema"."""

from __future__ import annotations

from typing import Any, Final

from ....driver.connection import Connection
from ....errors import Error, InterfaceError, ProgrammingError
from ....sql.session_facts import DATABASE
from ..metadata.catalogs import quoted, text
from ..protocol.messages import message
from ..protocol.numbers import OptionError

CATALOG, SCHEMA = "catalog", "schema"
_SCALARS: Final = ("string_value", "bool_value", "int64_value", "double_value")


def set_options(connection: Connection, request: Any) -> Any:
    """Sets each option; the reply has an error for each that could not be set."""
    errors = []
    for entry in request.session_options:
        code = _set(connection, entry.key, entry.value)
        if code is not None:
            errors.append(message("ErrorEntry", key=entry.key, value=message("OptionError", value=code)))
    return message("SetSessionOptionsResult", errors=errors)


def options(connection: Connection) -> Any:
    """All options with their values, as texts."""
    session = connection.session
    values = {name: str(value) for name, value in session.settings.texts().items()}
    values |= {CATALOG: DATABASE, SCHEMA: current_schema(connection)}
    entries = [
        message("OptionEntry", key=name, value=message("OptionValue", string_value=value))
        for name, value in sorted(values.items())
    ]
    return message("GetSessionOptionsResult", session_options=entries)


def _set(connection: Connection, name: str, value: Any) -> OptionError | None:
    """The kind of error; None if the option is set. An option without a value is reset."""
    kind = next((kind for kind in _SCALARS if value.HasField(kind)), None)
    written = "" if kind is None else str(getattr(value, kind))
    if kind == "bool_value":
        written = written.lower()
    if name == CATALOG:
        return None if written in ("", DATABASE) else OptionError.INVALID_VALUE
    if name == SCHEMA:
        return _set_schema(connection, written)
    if value.HasField("string_list_value"):
        return OptionError.INVALID_VALUE
    if not name.isidentifier() or name.lower() not in connection.session.settings.texts():
        return OptionError.INVALID_NAME
    try:
        connection.execute(f"RESET {name}" if kind is None else f"SET {name} = {text(written)}")
    except Error:
        return OptionError.INVALID_VALUE
    return None


def _set_schema(connection: Connection, schema: str) -> OptionError | None:
    known = connection.execute(f"SELECT 1 FROM information_schema.schemata WHERE schema_name = {text(schema)}")
    if known.fetchone() is None:
        return OptionError.INVALID_VALUE
    if current_schema(connection) == schema:
        return None
    try:
        connection.execute(f"SET search_path TO {quoted(schema)}")
    except (InterfaceError, ProgrammingError):
        return OptionError.INVALID_VALUE
    return None if current_schema(connection) == schema else OptionError.INVALID_VALUE


def current_schema(connection: Connection) -> str:
    """The schema in which a table is created whose name has none; "" if there is no such schema."""
    row = connection.execute("SELECT current_schema()").fetchone()
    return "" if row is None or row[0] is None else str(row[0])

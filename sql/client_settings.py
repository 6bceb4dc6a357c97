"""Settings of PostgreSQL that its clients set and read, with the values that nyala accepts.

kept     nyala does the same for all values: the value is kept for those who read it (application_name). search_path
         is kept, too, and what binding reads
fixed    nyala does what one value says, and refuses others (client_encoding: UTF8)
read     clients read it, and cannot set it (server_version)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from ..errors import NotSupportedError, StatementError
from .search_path import DEFAULT_TEXT, read_path
from .session_facts import SERVER_VERSION, SERVER_VERSION_NUMBER

KEPT: Final = {
    "application_name": ("", "The name that the client gives itself"),
    "backslash_quote": ("safe_encoding", "Has no effect: backslashes are ordinary characters"),
    "bytea_output": ("hex", "Has no effect: bytes are written by hexadecimal digits"),
    "check_function_bodies": ("on", "Has no effect: there are no functions to define"),
    "client_min_messages": ("notice", "Has no effect: few statements have notices"),
    "default_table_access_method": ("heap", "Has no effect: there is one kind of table"),
    "default_tablespace": ("", "Has no effect: there is one place for tables"),
    "extra_float_digits": ("1", "Has no effect: numbers are written with all their digits"),
    "jit": ("off", "Has no effect"),
    "max_parallel_workers_per_gather": ("2", "Has no effect: threads is the setting"),
    "row_security": ("on", "Has no effect: rows have no rights of their own"),
    "search_path": (DEFAULT_TEXT, "The schemas in which names without one are searched, after pg_catalog"),
    "synchronize_seqscans": ("on", "Has no effect"),
    "synchronous_commit": ("on", "Has no effect: durability is the setting"),
    "work_mem": ("4MB", "Has no effect: memory_limit is the setting"),
    "xmloption": ("content", "Has no effect: there is no XML"),
}
"""The default of each setting that is kept, and its description."""
FIXED: Final = {
    "client_encoding": ("UTF8", ("utf8", "utf-8", "unicode"), "The encoding of texts"),
    "datestyle": ("ISO, MDY", ("iso", "iso, mdy", "iso, ymd", "iso, dmy", "iso,mdy"), "How dates are written"),
    "escape_string_warning": ("on", ("on", "off", "true", "false"), "Has no effect"),
    "idle_in_transaction_session_timeout": ("0", ("0", "0ms", "0s"), "Transactions may be idle for any time"),
    "idle_session_timeout": ("0", ("0", "0ms", "0s"), "Sessions may be idle for any time"),
    "intervalstyle": ("postgres", ("postgres",), "How intervals are written"),
    "lock_timeout": ("0", ("0", "0ms", "0s"), "Statements wait for no locks"),
    "standard_conforming_strings": ("on", ("on", "true", "yes", "1"), "Backslashes in texts are ordinary characters"),
    "statement_timeout": ("0", ("0", "0ms", "0s"), "Statements may take any time"),
    "transform_null_equals": ("off", ("off", "false"), "x = NULL is NULL"),
}
"""The value that each setting has, those that mean the same, in lower case, and its description."""
READ: Final = {
    "block_size": ("8192", "The page size that pg_class counts in"),
    "default_transaction_deferrable": ("off", "Transactions never wait for a snapshot"),
    "in_hot_standby": ("off", "The session is not on a replica that cannot write"),
    "integer_datetimes": ("on", "Times are whole microseconds"),
    "is_superuser": ("on", "The one user may do all"),
    "lc_collate": ("C.UTF-8", "Texts are compared by code points"),
    "lc_ctype": ("C.UTF-8", "Texts are compared by code points"),
    "max_connections": ("100", "The number of connections that clients may expect"),
    "max_identifier_length": ("63", "The length of names that clients may expect"),
    "max_index_keys": ("32", "The number of columns of a key that clients may expect"),
    "server_encoding": ("UTF8", "The encoding of texts"),
    "server_version": (SERVER_VERSION, "The version of PostgreSQL whose catalogs clients may expect"),
    "server_version_num": (str(SERVER_VERSION_NUMBER), "The same as a number"),
    "ssl": ("off", "Whether an embedded session is encrypted"),
    "transaction_deferrable": ("off", "Transactions never wait for a snapshot"),
    "wal_level": ("replica", "What PostgreSQL's replicas would need"),
}
"""The value of each setting that clients read, and its description."""


def keep(name: str) -> Callable[[Any], str]:
    """A reader of values that are kept as texts."""
    if name == "search_path":
        return read_path

    def read(value: Any) -> str:
        if isinstance(value, bool):
            return "on" if value else "off"
        if not isinstance(value, str | int | float):
            raise StatementError(f"{name} is a text or a number, not {value}")
        return str(value)

    return read


def fix(name: str, value: str, same: Iterable[str]) -> Callable[[Any], str]:
    """A reader that accepts the one value that there is."""

    def read(given: Any) -> str:
        text = ("on" if given else "off") if isinstance(given, bool) else str(given)
        if text.strip("'\" ").lower() not in same:
            raise NotSupportedError(f"{name} is {value}, and cannot be {text}")
        return text if name in ("datestyle", "escape_string_warning") else value

    return read

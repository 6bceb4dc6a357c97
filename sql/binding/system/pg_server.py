"""Rows of the relations of `pg_catalog` that describe the server: database, roles, settings, access methods."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, Final

from ....errors import hide_passwords
from ...functions import FUNCTIONS
from ...settings import SETTINGS
from .objects import Objects
from .pg_objects import BTREE, HEAP, OWNER, Row
from .roles import role_number
from .types import DEFAULT_COLLATION, converters, postgres_types

DATABASE_OID: Final = 5
_UTF8: Final = 6
_TABLESPACE: Final = 1663
_RANGES: Final = (
    (3904, 23, 4451, 1978), (3906, 1700, 4532, 3125), (3908, 1114, 4533, 3128), (3910, 1184, 4534, 3127),
    (3912, 1082, 4535, 3122), (3926, 20, 4536, 3124),
)  # fmt: skip
_FIRST_FUNCTION: Final = 20000
KINDS_OF_FUNCTIONS: Final = {"scalar": "f", "aggregate": "a", "window": "w", "table": "f"}


def pg_database(objects: Objects) -> Iterator[Row]:
    """The one database: the store."""
    yield {
        "oid": DATABASE_OID,
        "datname": objects.context.session.database,
        "datdba": OWNER,
        "encoding": _UTF8,
        "datlocprovider": "c",
        "datallowconn": True,
        "datconnlimit": -1,
        "dattablespace": _TABLESPACE,
        "datcollate": "C.UTF-8",
        "datctype": "C.UTF-8",
    }


def pg_tablespace(objects: Objects) -> Iterator[Row]:
    """The one place of tables."""
    yield {"oid": _TABLESPACE, "spcname": "pg_default", "spcowner": OWNER}


def pg_am(objects: Objects) -> Iterator[Row]:
    """The access methods of tables and of primary keys."""
    yield {"oid": HEAP, "amname": "heap", "amtype": "t"}
    yield {"oid": BTREE, "amname": "btree", "amtype": "i"}


def pg_collation(objects: Objects) -> Iterator[Row]:
    """The one collation: texts are compared by code points."""
    for oid, name, locale in ((DEFAULT_COLLATION, "default", None), (950, "C", "C")):
        yield {
            "oid": oid,
            "collname": name,
            "collnamespace": objects.namespaces["pg_catalog"],
            "collowner": OWNER,
            "collprovider": "d" if locale is None else "c",
            "collisdeterministic": True,
            "collencoding": -1,
            "collcollate": locale,
            "collctype": locale,
        }


def pg_language(objects: Objects) -> Iterator[Row]:
    """The language of the built-in functions."""
    yield {"oid": 12, "lanname": "internal", "lanowner": OWNER}


def pg_range(objects: Objects) -> Iterator[Row]:
    """The range types, which clients look up."""
    for oid, subtype, multirange, operators in _RANGES:
        yield {"rngtypid": oid, "rngsubtype": subtype, "rngmultitypid": multirange, "rngsubopc": operators}


def pg_proc(objects: Objects) -> Iterator[Row]:
    """The functions: those that convert types, with PostgreSQL's numbers, and nyala's."""
    anything = postgres_types()["any"].oid
    common: Row = {
        "pronamespace": objects.namespaces["pg_catalog"], "proowner": OWNER, "prolang": 12, "procost": 1.0,
        "proisstrict": True, "provolatile": "i", "proparallel": "s", "prorettype": anything,
    }  # fmt: skip
    for name, oid in converters().items():
        yield common | {"oid": oid, "proname": name, "prokind": "f", "pronargs": 1, "proargtypes": "", "prosrc": name}
    for oid, name, kind, least in functions():
        yield common | {
            "oid": oid,
            "proname": name,
            "prokind": kind,
            "pronargs": least,
            "proargtypes": " ".join([str(anything)] * least),
            "proretset": False,
            "prosrc": name,
        }


def functions() -> Iterator[tuple[int, str, str, int]]:
    """The number, name, kind and least number of arguments of each function; the number is made from the name."""
    for function in FUNCTIONS:
        for name in (function.name, *function.aliases):
            yield _FIRST_FUNCTION + (zlib.crc32(name.encode()) >> 4), name, *_kind(function)


def _kind(function: Any) -> tuple[str, int]:
    return KINDS_OF_FUNCTIONS[function.kind], function.least


def pg_settings(objects: Objects) -> Iterator[Row]:
    """The settings of the session."""
    for name, value in sorted(objects.context.session.settings().items()):
        setting = SETTINGS.get(name)
        can_be_set = setting is not None and setting.read is not None
        yield {
            "name": name,
            "setting": value,
            "category": "nyala" if setting is not None and not setting.foreign else "PostgreSQL",
            "short_desc": "" if setting is None else setting.description,
            "context": "user" if can_be_set else "internal",
            "vartype": "bool" if value in ("on", "off") else "string",
            "source": "session",
            "boot_val": value,
            "reset_val": value,
        }


def pg_stat_activity(objects: Objects) -> Iterator[Row]:
    """This session."""
    session = objects.context.session
    yield {
        "datid": DATABASE_OID,
        "datname": session.database,
        "pid": session.process,
        "usesysid": role_number(session.user, objects),
        "usename": session.user,
        "application_name": session.settings().get("application_name", ""),
        "client_port": -1,
        "state": "active",
        "query": hide_passwords(objects.context.text),
        "backend_type": "client backend",
    }


def pg_stat_database(objects: Objects) -> Iterator[Row]:
    """The one database."""
    yield {"datid": DATABASE_OID, "datname": objects.context.session.database, "numbackends": 1}


def pg_stat_ssl(objects: Objects) -> Iterator[Row]:
    """This session, which is in the process of the store."""
    yield {"pid": objects.context.session.process, "ssl": False}


def pg_timezone_names(objects: Objects) -> Iterator[Row]:
    """The one time zone."""
    yield {"name": "UTC", "abbrev": "UTC", "utc_offset": (0, 0, 0), "is_dst": False}


def pg_timezone_abbrevs(objects: Objects) -> Iterator[Row]:
    """The one time zone, by its abbreviation."""
    yield {"abbrev": "UTC", "utc_offset": (0, 0, 0), "is_dst": False}

"""Binds the calls of functions that read the catalog or the session.

Each becomes a constant, or a look-up of a number among the texts that the catalog has at the time of the binding.
`sql.functions.system` documents them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from ....errors import StatementError, TypeMismatch
from ....model.clock import wall_time
from ....model.namespaces import TEMPORARY_NAMESPACE
from ....model.types import BIGINT, BOOLEAN, INT, STRING, TIMESTAMP, DataType, Kind
from ....model.version import __version__
from ...arithmetic import operate
from ...array_text import write_array
from ...bound import SetSetting
from ...coercion import cast, convert, is_text_literal
from ...expressions import Call, Expr, Literal
from ...functions.function import Function
from ...session_facts import SERVER_VERSION
from ...settings import find_setting
from ..context import Context
from ..names import PG_CATALOG, canonical, current_schema, search_path
from .lookups import COLUMNS_PER_TABLE, looked_up, mapping, names_to_numbers, number_of, unknown
from .objects import Objects, SystemObject
from .pg_objects import constraint_text, index_text, view_text
from .relations import objects_of
from .roles import is_member, on_schemas, on_tables, role_names
from .types import names_by_oid

Args: TypeAlias = tuple[Expr, ...]
Binder: TypeAlias = Callable[[Context, Function, Args], Expr]
NAME: Final = DataType(Kind.STRING, alias="name")
_TEXTS: Final = DataType(Kind.STRING, alias="text[]")


def bind_system(context: Context, name: str, function: Function, args: Args) -> Expr:
    """Bind a call whose number of arguments is right; `name` is the one that was written."""
    binder = _BINDERS.get(name) or _BINDERS[function.name]
    return binder(context, function, args)


def is_bound_here(name: str, function: Function) -> bool:
    """True for a function that reads the catalog or the session."""
    return name in _BINDERS or function.name in _BINDERS


# ---- constants -------------------------------------------------------------------------------------------------------


def _constant(type_: DataType, value: Any) -> Binder:
    return lambda context, function, args: Literal(type_, value is None, value)


def _of_session(type_: DataType, read: Callable[[Context], Any]) -> Binder:
    def bind(context: Context, function: Function, args: Args) -> Expr:
        context.momentary.append(function.name)
        return Literal(type_, False, read(context))

    return bind


def _version(context: Context) -> str:
    return f"PostgreSQL {SERVER_VERSION} (nyala {__version__})"


def _schemas(context: Context, function: Function, args: Args) -> Expr:
    with_system = convert(args[0], BOOLEAN)
    if not isinstance(with_system, Literal) or with_system.value is None:
        raise TypeMismatch("current_schemas needs a constant, true or false")
    path = search_path(context)
    if with_system.value:
        first = path[:1] if path[:1] == (TEMPORARY_NAMESPACE,) else ()
        return Literal(_TEXTS, False, write_array([*first, PG_CATALOG, *path[len(first) :]]))
    return Literal(_TEXTS, False, write_array([name for name in path if name != TEMPORARY_NAMESPACE]))


def _schema(context: Context, function: Function, args: Args) -> Expr:
    name = current_schema(context)
    return Literal(NAME, name is None, name)


def _temporary_schema(context: Context, function: Function, args: Args) -> Expr:
    number = objects_of(context).namespaces.get(TEMPORARY_NAMESPACE, 0)
    return Literal(DataType(Kind.BIGINT, alias="oid"), False, number)


# ---- settings --------------------------------------------------------------------------------------------------------


def _text_of(function: Function, arg: Expr) -> str | None:
    if not isinstance(arg, Literal) or not (arg.value is None or isinstance(arg.value, str)):
        raise TypeMismatch(f"{function.name} needs a constant text: {function.signature}")
    return arg.value


def _setting(context: Context, function: Function, args: Args) -> Expr:
    name = _text_of(function, args[0])
    context.momentary.append(function.name)
    if name is None:
        return Literal(STRING, True, None)
    found = context.session.settings().get(name.lower())
    missing = convert(args[1], BOOLEAN) if len(args) > 1 else None
    if found is None and not (isinstance(missing, Literal) and missing.value):
        find_setting(name)  # raises, unless the session has no settings
    return Literal(STRING, found is None, found)


def _set_setting(context: Context, function: Function, args: Args) -> Expr:
    name, value = _text_of(function, args[0]), _text_of(function, args[1])
    local = convert(args[2], BOOLEAN)
    if name is None or value is None or not isinstance(local, Literal):
        raise TypeMismatch(f"{function.name} needs constants: {function.signature}")
    setting = find_setting(name)
    if setting.read is None:
        raise StatementError(f"{setting.name} cannot be set")
    context.momentary.append(function.name)
    context.settings.append(SetSetting(setting.name, setting.read(value)))
    return Literal(STRING, False, value)


# ---- texts by number -------------------------------------------------------------------------------------------------


def _number(arg: Expr, context: Context, kind: str = "regclass") -> Expr:
    """The number of an object; a quoted text is its name."""
    if is_text_literal(arg) and isinstance(arg, Literal):
        number = None if arg.value is None else number_of(kind, str(arg.value), objects_of(context))
        if arg.value is not None and number is None:
            raise unknown(kind, str(arg.value))
        return Literal(BIGINT, number is None, number)
    return convert(arg, BIGINT) if arg.type.kind is Kind.NULL else cast(arg, BIGINT)


def _of_number(texts: Callable[[Objects], Mapping[int, str]], kind: str = "regclass") -> Binder:
    def bind(context: Context, function: Function, args: Args) -> Expr:
        return looked_up(_number(args[0], context, kind), texts(objects_of(context)))

    return bind


def _tables(objects: Objects, text: Callable[[SystemObject], str | None], offset: int = 0) -> dict[int, str]:
    found = ((each.oid + offset, text(each)) for each in objects.tables)
    return {number: shown for number, shown in found if shown}


def _constraints(objects: Objects) -> Mapping[int, str]:
    return _tables(objects, lambda each: constraint_text(each.table) if each.table else None, 4)


def _comments(objects: Objects) -> Mapping[int, str]:
    return _tables(objects, lambda each: each.table.comment if each.table else None)


def _views(objects: Objects) -> Mapping[int, str]:
    return {each.oid: view_text(each.view.text) for each in objects.own if each.view is not None}


def _index(context: Context, function: Function, args: Args) -> Expr:
    objects, key = objects_of(context), _number(args[0], context)
    place = convert(args[1], INT) if len(args) > 1 else Literal(INT, False, 0)
    if isinstance(place, Literal) and place.value == 0:
        pretty = convert(args[2], BOOLEAN) if len(args) > 2 else None
        short = isinstance(pretty, Literal) and bool(pretty.value)
        keys = ((each.oid, each.table, "" if short else each.schema) for each in objects.keys)
        return looked_up(key, {oid: index_text(table, schema) for oid, table, schema in keys if table is not None})
    texts = {each.oid * COLUMNS_PER_TABLE + c.place: c.name for each in objects.keys for c in each.attributes}
    return looked_up(_of_column(key, place), texts)


def _of_column(table: Expr, place: Expr) -> Expr:
    return operate("add", operate("mul", table, Literal(BIGINT, False, COLUMNS_PER_TABLE)), cast(place, BIGINT))


def _column_comment(context: Context, function: Function, args: Args) -> Expr:
    texts = {
        each.oid * COLUMNS_PER_TABLE + column.place: column.stored.comment
        for each in objects_of(context).tables
        for column in each.attributes
        if column.stored is not None and column.stored.comment
    }
    return looked_up(_of_column(_number(args[0], context), convert(args[1], INT)), texts)


def _type_name(context: Context, function: Function, args: Args) -> Expr:
    own = {each.oid + 1: each.name for each in objects_of(context).own}
    oid, modifier = cast(args[0], BIGINT), cast(args[1], INT)
    return Call(STRING, True, "format_type", (oid, modifier, mapping({**names_by_oid(), **own})))


def _first(context: Context, function: Function, args: Args) -> Expr:
    return cast(args[0], STRING) if args[0].type.kind is not Kind.STRING else args[0]


def _is_visible(context: Context, function: Function, args: Args) -> Expr:
    objects = objects_of(context)
    texts = {each.oid: "t" if objects.is_visible(each) else "f" for each in objects.everything()}
    return cast(looked_up(_number(args[0], context), texts), BOOLEAN)


def _sizes(context: Context, function: Function, args: Args) -> Expr:
    context.momentary.append(function.name)
    storage = getattr(context.catalog, "table_storage", None)
    texts = _tables(objects_of(context), lambda each: None if storage is None else str(storage(each.table).bytes))
    texts |= {key.oid: "0" for key in objects_of(context).keys}  # a key has no file of its own
    return cast(looked_up(_number(args[0], context), texts), BIGINT)


def _whole_size(context: Context, function: Function, args: Args) -> Expr:
    context.momentary.append(function.name)
    storage = getattr(context.catalog, "table_storage", None)
    found = 0 if storage is None else sum(storage(table).bytes for table in context.catalog.tables())
    return Literal(BIGINT, False, found)


# ---- numbers by name -------------------------------------------------------------------------------------------------


def _to_number(kind: str) -> Binder:
    def bind(context: Context, function: Function, args: Args) -> Expr:
        text = _text_of(function, args[0])
        number = None if text is None else number_of(kind, text, objects_of(context))
        return Literal(DataType(Kind.BIGINT, alias=kind), number is None, number)

    return bind


def _on_tables(context: Context, args: Args) -> Expr:
    def found(table: Expr, texts: dict[int, str]) -> Expr:
        if table.type.kind is Kind.STRING and not isinstance(table, Literal):
            return looked_up(names_to_numbers(table, "regclass", objects_of(context)), texts)
        return looked_up(_number(table, context), texts)

    return on_tables(args, objects_of(context), found)


def _on_schemas(context: Context, args: Args) -> Expr:
    objects = objects_of(context)

    def found(schema: Expr, texts: dict[int, str]) -> Expr:
        if schema.type.kind is not Kind.STRING:
            return looked_up(schema, texts)
        if not isinstance(schema, Literal):
            return looked_up(names_to_numbers(schema, "regnamespace", objects), texts)
        number = None if schema.value is None else objects.namespaces.get(canonical(str(schema.value)))
        if schema.value is not None and number is None:
            raise unknown("regnamespace", str(schema.value))
        return looked_up(Literal(BIGINT, number is None, number), texts)

    return on_schemas(args, objects, found)


_OTHER_PRIVILEGES: Final = tuple(
    f"has_{kind}_privilege"
    for kind in (
        *("database", "function", "sequence", "type", "tablespace", "language", "server", "foreign_data_wrapper"),
    )
)
"""Objects that have no rights of their own."""
_TRUE, _FALSE = _constant(BOOLEAN, True), _constant(BOOLEAN, False)
_NOTHING = _constant(STRING, None)
_USER = _of_session(NAME, lambda context: context.session.user)

_BINDERS: Final[Mapping[str, Binder]] = {
    "version": _of_session(STRING, _version),
    "current_database": _of_session(NAME, lambda context: context.session.database),
    "current_schema": _schema,
    "current_schemas": _schemas,
    "current_user": _USER,
    "session_user": _of_session(NAME, lambda context: context.session.session_user),
    "current_setting": _setting,
    "set_config": _set_setting,
    "pg_backend_pid": _of_session(INT, lambda context: context.session.process),
    "pg_is_in_recovery": _FALSE,
    "pg_postmaster_start_time": _of_session(TIMESTAMP, lambda context: context.session.started),
    "pg_client_encoding": _constant(NAME, "UTF8"),
    "pg_encoding_to_char": _of_number(lambda objects: {0: "SQL_ASCII", 6: "UTF8"}),
    "pg_char_to_encoding": lambda context, function, args: Literal(
        INT, False, 6 if str(_text_of(function, args[0])).upper().replace("-", "") == "UTF8" else -1
    ),
    "inet_server_addr": _constant(DataType(Kind.STRING, alias="inet"), None),
    "inet_server_port": _constant(INT, None),
    "inet_client_port": _constant(INT, None),
    "txid_current": _of_session(BIGINT, lambda context: wall_time(context.now())),
    "pg_my_temp_schema": _temporary_schema,
    "pg_is_other_temp_schema": _FALSE,
    "pg_advisory_unlock_all": _NOTHING,
    "format_type": _type_name,
    "pg_get_userbyid": _of_number(role_names, "regrole"),
    "pg_get_expr": _first,
    "pg_get_constraintdef": _of_number(_constraints),
    "pg_get_indexdef": _index,
    "pg_get_viewdef": _of_number(_views),
    "pg_get_function_result": _NOTHING,
    "pg_get_function_arguments": _NOTHING,
    "pg_get_serial_sequence": _NOTHING,
    "pg_get_partkeydef": _NOTHING,
    "pg_get_triggerdef": _NOTHING,
    "pg_stat_get_numscans": _constant(BIGINT, 0),
    "obj_description": _of_number(_comments),
    "col_description": _column_comment,
    "shobj_description": _NOTHING,
    "pg_table_is_visible": _is_visible,
    "pg_type_is_visible": _TRUE,
    "pg_relation_is_publishable": _FALSE,
    "has_schema_privilege": lambda context, function, args: _on_schemas(context, args),
    "has_table_privilege": lambda context, function, args: _on_tables(context, args),
    "has_column_privilege": lambda context, function, args: _on_tables(context, (*args[:-2], args[-1])),
    "has_any_column_privilege": lambda context, function, args: _on_tables(context, args),
    **dict.fromkeys(_OTHER_PRIVILEGES, _TRUE),
    "pg_has_role": lambda context, function, args: is_member(args, objects_of(context)),
    **{f"to_{kind}": _to_number(kind) for kind in ("regclass", "regtype", "regnamespace", "regproc", "regrole")},
    "pg_table_size": _sizes,
    "pg_relation_size": _sizes,
    "pg_indexes_size": _constant(BIGINT, 0),
    "pg_database_size": _whole_size,
    "pg_tablespace_size": _whole_size,
    "pg_tablespace_location": _constant(STRING, ""),
}

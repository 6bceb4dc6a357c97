"""Functions that PostgreSQL's clients call to learn about the server, the session and its catalog.

Those that read the catalog or the session are bound by `binding.system.functions`, which has them by name; here is what
the documentation says of them.
"""

from __future__ import annotations

from typing import Final

from ...errors import NotSupportedError
from ...model.types import STRING
from ..expressions import Expr
from .arguments import whole
from .function import Args, Function, call


def _in_a_statement(function: Function, args: Args) -> Expr:
    raise NotSupportedError(f"{function.name} reads the catalog, which a {'view' if args else 'DEFAULT'} cannot")


def _pretty(function: Function, args: Args) -> Expr:
    return call(STRING, "pg_size_pretty", whole(function, args[0]))


def _reading(
    name: str, arguments: str, least: int, most: int, description: str, example: str, result: str,
    aliases: tuple[str, ...] = (),
) -> Function:  # fmt: skip
    """A function that is bound with the catalog or the session."""
    signature = f"{name}({arguments})"
    return Function(
        name, signature, least, most, _in_a_statement, calls=(), description=description,
        example=example, result=result, aliases=aliases,
    )  # fmt: skip


_OF_A_TABLE: Final = "'pg_class'::regclass"
_PRIVILEGES: Final = (
    *("has_column_privilege", "has_any_column_privilege", "has_schema_privilege", "has_database_privilege"),
    *("has_function_privilege", "has_sequence_privilege", "has_type_privilege", "has_tablespace_privilege"),
    *("has_language_privilege", "has_server_privilege", "has_foreign_data_wrapper_privilege"),
)

SYSTEM = (
    _reading("version", "", 0, 0, "The version of PostgreSQL that clients may expect, and nyala's",
             "starts_with(version(), 'PostgreSQL 15.0')", "true"),
    _reading("current_database", "", 0, 0, "The name of the database; also current_catalog", "current_database()",
             "nyala", aliases=("current_catalog",)),
    _reading("current_schema", "", 0, 0, "The schema in which objects without one are created", "current_schema()",
             "public"),
    _reading("current_schemas", "with system", 1, 1, "The schemas in which a name is searched, as an array",
             "current_schemas(true)", "{pg_catalog,public}"),
    _reading("current_user", "", 0, 0, "The user of the session; also session_user, current_role and user",
             "current_user = session_user", "true", aliases=("session_user", "current_role", "user")),
    _reading("current_setting", "name [, missing is NULL]", 1, 2, "The value of a setting of the session",
             "current_setting('server_version')", "15.0"),
    _reading("set_config", "name, value, local", 3, 3, "Sets a setting when the statement starts; returns the value",
             "set_config('application_name', 'report', false)", "report"),
    _reading("pg_backend_pid", "", 0, 0, "The number of the process of the session", "pg_backend_pid() > 0", "true"),
    _reading("pg_is_in_recovery", "", 0, 0, "False", "pg_is_in_recovery()", "false"),
    _reading("pg_postmaster_start_time", "", 0, 0, "The time when the process started",
             "pg_postmaster_start_time() <= now()", "true", aliases=("pg_conf_load_time",)),
    _reading("pg_client_encoding", "", 0, 0, "UTF8, the encoding of texts", "pg_client_encoding()", "UTF8",
             aliases=("getdatabaseencoding",)),
    _reading("pg_encoding_to_char", "number", 1, 1, "The name of an encoding", "pg_encoding_to_char(6)", "UTF8"),
    _reading("pg_char_to_encoding", "name", 1, 1, "The number of an encoding", "pg_char_to_encoding('UTF8')", "6"),
    _reading("inet_server_addr", "", 0, 0, "NULL, as for a local connection", "inet_server_addr()", "NULL",
             aliases=("inet_client_addr", "inet_server_port", "inet_client_port")),
    _reading("txid_current", "", 0, 0, "The time of the statement as a number",
             "txid_current() > 0", "true", aliases=("pg_current_xact_id",)),
    _reading("pg_my_temp_schema", "", 0, 0, "0: there is no schema of temporary tables", "pg_my_temp_schema()", "0"),
    _reading("pg_is_other_temp_schema", "schema", 1, 1, "False", "pg_is_other_temp_schema(11)", "false"),
    _reading("pg_advisory_unlock_all", "", 0, 0, "NULL: there are no such locks", "pg_advisory_unlock_all()", "NULL"),
    Function(
        "format_type", "format_type(type, modifier)", 2, 2, _in_a_statement, skips_nulls=True,
        description="The name of a type by its number in pg_type", example="format_type(1700, 786438)",
        result="numeric(12,2)",
    ),
    _reading("pg_get_userbyid", "role", 1, 1, "The name of a role", "pg_get_userbyid(10) = current_user", "true"),
    _reading("pg_get_expr", "expression, table [, pretty]", 2, 3, "The text of a default of pg_attrdef",
             "pg_get_expr('1', 0)", "1"),
    _reading("pg_get_constraintdef", "constraint [, pretty]", 1, 2, "The text of a constraint of pg_constraint",
             "pg_get_constraintdef(1)", "NULL"),
    _reading("pg_get_indexdef", "index [, column, pretty]", 1, 3, "The text of an index of pg_index, or a column of it",
             "pg_get_indexdef(1)", "NULL"),
    _reading("pg_get_viewdef", "view [, pretty]", 1, 2, "The query of a view", "pg_get_viewdef(1)", "NULL"),
    _reading("pg_get_function_result", "function", 1, 1, "The type of a function's result",
             "pg_get_function_result(1)", "NULL"),
    _reading("pg_get_function_arguments", "function", 1, 1, "The parameters of a function",
             "pg_get_function_arguments(1)", "NULL", aliases=("pg_get_function_identity_arguments",)),
    _reading("pg_get_serial_sequence", "table, column", 2, 2, "NULL: there are no sequences",
             "pg_get_serial_sequence('t', 'k')", "NULL"),
    _reading("pg_get_partkeydef", "table", 1, 1, "NULL: partitions are no tables", "pg_get_partkeydef(1)", "NULL",
             aliases=("pg_get_statisticsobjdef_columns", "pg_get_functiondef", "pg_stat_get_numscans")),
    _reading("pg_get_triggerdef", "trigger [, pretty]", 1, 2, "NULL: there are no triggers", "pg_get_triggerdef(1)",
             "NULL", aliases=("pg_get_ruledef",)),
    _reading("obj_description", "object [, catalog]", 1, 2, "The comment of a table", "obj_description(1, 'pg_class')",
             "NULL"),
    _reading("col_description", "table, column", 2, 2, "The comment of a column", "col_description(1, 1)", "NULL"),
    _reading("shobj_description", "object, catalog", 2, 2, "NULL: the database has no comment",
             "shobj_description(5, 'pg_database')", "NULL"),
    _reading("pg_table_is_visible", "table", 1, 1, "True if a table is found by its name alone",
             f"pg_table_is_visible({_OF_A_TABLE})", "true"),
    _reading("pg_type_is_visible", "type", 1, 1, "True: all types are found by their names alone",
             "pg_type_is_visible(23)", "true",
             aliases=("pg_function_is_visible", "pg_collation_is_visible", "pg_operator_is_visible",
                      "pg_opclass_is_visible", "pg_opfamily_is_visible", "pg_conversion_is_visible",
                      "pg_statistics_obj_is_visible", "pg_ts_config_is_visible", "pg_ts_dict_is_visible",
                      "pg_ts_parser_is_visible", "pg_ts_template_is_visible")),
    _reading("pg_relation_is_publishable", "table", 1, 1, "False: there is no logical replication",
             "pg_relation_is_publishable(1)", "false"),
    _reading("has_table_privilege", "[user,] table [, column], privilege", 2, 4,
             "True if a user, or the current one, has a right on a table; also of schemas",
             "has_table_privilege('pg_class', 'SELECT')", "true",
             aliases=_PRIVILEGES),
    _reading("pg_has_role", "[user,] role, privilege", 2, 3, "True if a user, or the current one, is in a role",
             "pg_has_role(current_user, 'USAGE')", "true"),
    _reading("to_regclass", "name", 1, 1, "The number of a table, NULL if there is none",
             "to_regclass('pg_class')::oid", "1259"),
    _reading("to_regtype", "name", 1, 1, "The number of a type, NULL if there is none",
             "to_regtype('integer')::oid", "23"),
    _reading("to_regnamespace", "name", 1, 1, "The number of a schema, NULL if there is none",
             "to_regnamespace('pg_catalog')::oid", "11"),
    _reading("to_regproc", "name", 1, 1, "The number of a function, NULL if there is none",
             "to_regproc('array_in')::oid", "750"),
    _reading("to_regrole", "name", 1, 1, "The number of a role, NULL if there is none", "to_regrole('nobody')::oid",
             "NULL"),
    _reading("pg_table_size", "table", 1, 1, "The bytes of a table on the disk", "pg_table_size(1)", "NULL",
             aliases=("pg_total_relation_size",)),
    _reading("pg_relation_size", "table [, fork]", 1, 2, "The bytes of a table on the disk", "pg_relation_size(1)",
             "NULL"),
    _reading("pg_indexes_size", "table", 1, 1, "0: a primary key needs no index of its own", "pg_indexes_size(1)", "0"),
    _reading("pg_database_size", "database", 1, 1, "The bytes of all tables on the disk", "pg_database_size('nyala')",
             "0"),
    _reading("pg_tablespace_size", "tablespace", 1, 1, "The bytes of all tables on the disk",
             "pg_tablespace_size('pg_default')", "0"),
    _reading("pg_tablespace_location", "tablespace", 1, 1, "An empty text, as for the place of a database",
             "length(pg_tablespace_location(1663))", "0"),
    Function(
        "pg_size_pretty", "pg_size_pretty(bytes)", 1, 1, _pretty,
        description="A number of bytes in a larger unit", example="pg_size_pretty(123456789)", result="118 MB",
    ),
)  # fmt: skip
"""In the order of use."""

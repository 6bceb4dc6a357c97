"""Capabilities of nyala for SQLAlchemy's compliance suite: open requirements, and reasons for the closed ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements

OPEN = [
    "schemas",
    "schema_reflection",
    "schema_create_delete",
    "implicit_default_schema",
    "default_schema_name_switch",
    "temporary_tables",
    "temporary_views",
    "temp_table_reflection",
    "has_temp_table",
    "temp_table_names",
    "temp_table_comment_reflection",
    "create_temp_table_as",
    "aggregate_order_by",
    "boolean_col_expressions",
    "cast_precision_numerics_many_significant_digits",
    "comment_reflection",
    "comment_reflection_full_unicode",
    "create_or_replace_view",
    "create_table_as",
    "ctes",
    "ctes_with_update_delete",
    "ctes_with_values",
    "date_historic",
    "datetime_historic",
    "datetime_literals",
    "datetime_timezone",
    "datetime_timezone_historic",
    "delete_from",
    "except_",
    "fetch_expression",
    "fetch_first",
    "fetch_no_order_by",
    "fetch_offset_with_options",
    "fetch_ties",
    "intersect",
    "mod_operator_as_percent_sign",
    "nullsordering",
    "order_by_label_with_expression",
    "percent_schema_names",
    "precision_numerics_enotation_small",
    "precision_numerics_many_significant_digits",
    "precision_numerics_retains_significant_digits",
    "reflect_table_options",
    "regexp_match",
    "regexp_replace",
    "server_defaults",
    "supports_bitwise_and",
    "supports_bitwise_not",
    "supports_bitwise_or",
    "supports_bitwise_shift",
    "supports_bitwise_xor",
    "supports_distinct_on",
    "table_ddl_if_exists",
    "table_value_constructor",
    "timestamp_microseconds",
    "tuple_in",
    "unicode_ddl",
    "update_from",
    "uuid_data_type",
    "view_column_reflection",
    "view_reflection",
    "views",
    "window_functions",
    "window_range",
    "window_range_non_numeric",
    "window_range_numeric",
    "infinity_floats",
    "get_isolation_level_values",
    "savepoints",
    "isolation_level",
    "autocommit",
    "skip_autocommit_rollback",
    "dialect_level_isolation_level_param",
    "empty_inserts",
    "empty_inserts_executemany",
    "tuple_in_w_empty",
    "timestamp_microseconds_implicit_bound",
    "float_or_double_precision_behaves_generically",
]
"""Requirements that SQLAlchemy takes to be closed unless a dialect says otherwise."""

CLOSED_FOR: dict[str, str] = {
    "there are no foreign keys": """
        foreign_keys self_referential_foreign_keys on_update_cascade non_updating_cascade cross_schema_fk_reflection
        foreign_key_constraint_reflection foreign_key_constraint_name_reflection deferrable_fks recursive_fk_cascade
        on_update_or_deferrable_fks repeated_column_foreign_keys repeated_remote_col_foreign_keys
        foreign_key_constraint_option_reflection_ondelete fk_constraint_option_reflection_ondelete_restrict
        fk_constraint_option_reflection_ondelete_noaction foreign_key_constraint_option_reflection_onupdate
        fk_constraint_option_reflection_onupdate_restrict foreign_keys_reflect_as_index""",
    "there are no secondary indexes": """
        index_reflection temp_table_reflect_indexes index_ddl_if_exists index_reflects_included_columns
        indexes_with_ascdesc reflect_indexes_with_ascdesc reflect_indexes_with_ascdesc_as_expression
        indexes_check_column_order indexes_with_expressions reflect_indexes_with_expressions""",
    "only the primary key is unique": """
        unique_constraint_reflection unique_constraints_reflect_as_index unique_index_reflect_as_unique_constraints""",
    "constraints have no names: the primary key is the only one": """
        named_constraints implicitly_named_constraints reflects_pk_names constraint_comment_reflection""",
    "there are no check constraints": "check_constraint_reflection inline_check_constraint_reflection",
    "there are no computed columns": """
        computed_columns computed_columns_stored computed_columns_virtual computed_columns_default_persisted
        computed_columns_reflect_persisted""",
    "there are no sequences: the dialect gives the numbers": """
        sequences sequences_optional identity_columns identity_columns_standard""",
    "numbers are given before the INSERT, so that nothing has to be asked after it": """
        implements_get_lastrowid emulated_lastrowid emulated_lastrowid_even_with_sequences dbapi_lastrowid
        supports_lastrowid""",
    "there are no materialized views": "materialized_views materialized_views_reflect_pk",
    "a transaction is over when its COMMIT returns": "two_phase_transactions",
    "DEFAULT is a constant": "expression_server_defaults",
    "no column can be an INTERVAL": "datetime_interval",
    "a time of day has no time zone": "time_timezone",
    "JSON is kept as a text, which SQL does not look into": """
        json_type json_array_indexes json_index_supplementary_unicode_element legacy_unconditional_json_extract
        json_deserializer_binary""",
    "there are no arrays": "array_type",
    "there is one order of texts": "column_collation_reflection order_by_collation",
    "FETCH counts rows, not percent": "fetch_percent",
    "texts are Unicode, and there are no national types beside them": "nvarchar_types",
    "a table has at least one column": "reflect_tables_no_columns",
    "WITH holds queries, not statements that write": "ctes_on_dml",
    "the driver is not asynchronous": "async_dialect",
    "rows are made while they are fetched, with any cursor": "server_side_cursors",
    "names keep their case when quoted, and are in lower case": "denormalized_names",
}
"""Closed requirements by reason."""
CLOSED = {name: reason for reason, names in CLOSED_FOR.items() for name in names.split()}


def _isolation_levels(self: Any, config: Any) -> dict[str, Any]:
    levels = config.db.dialect.get_isolation_level_values(None)
    return {"default": "SNAPSHOT", "supported": levels}


def _property(make: Callable[..., Any], *args: str) -> property:
    """A requirement, made anew at each use: a second decorator of a test changes that of the first."""
    return property(lambda self: make(*args))


def _closed(reason: str) -> Any:
    return exclusions.skip_if(exclusions.BooleanPredicate(True, reason))


Requirements = type(
    "Requirements",
    (SuiteRequirements,),
    {
        "get_isolation_levels": _isolation_levels,
        **{name: _property(exclusions.open) for name in OPEN},
        **{name: _property(_closed, reason) for name, reason in CLOSED.items()},
    },
)

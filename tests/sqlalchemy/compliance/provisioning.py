"""Temporary tables and the default schema, as the suite makes and changes them; loaded with -p."""

from __future__ import annotations

from typing import Any

from sqlalchemy.testing import provision


@provision.temp_table_keyword_args.for_db("nyala")
def temp_table_keyword_args(config: Any, engine: Any) -> dict[str, Any]:
    return {"prefixes": ["TEMPORARY"]}


@provision.set_default_schema_on_connection.for_db("nyala")
def set_default_schema_on_connection(config: Any, connection: Any, name: str) -> None:
    cursor = connection.cursor()
    cursor.execute(f'SET search_path = "{name}"')
    connection.commit()
    cursor.close()

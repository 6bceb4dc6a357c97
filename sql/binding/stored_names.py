"""Names in the store of tables and views that are given without a statement: to programs, loads, COPY of clients."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import StatementError
from ...model.namespaces import DEFAULT_NAMESPACE
from ..session_facts import UNKNOWN_SESSION, SessionFacts
from ..written_identifiers import name_parts
from .clauses.query import bind_query
from .context import Catalog, Context
from .names import canonical, check_schema, found_name, has_relation


def parts_of(name: str, catalog: Catalog) -> Sequence[str]:
    """The schema and the name, or the name alone, of `schema.name` or of a name that may have a point in it; letters
    count as they are."""
    if "." not in name or has_relation(DEFAULT_NAMESPACE, name, catalog):
        return [name]
    return name_parts(name, folded=False) if name.count(".") == 1 or '"' in name else [name]


def stored_name(parts: Sequence[str], catalog: Catalog, session: SessionFacts = UNKNOWN_SESSION) -> str:
    """The name in the store of a table or view, which may not exist: from its name, or its schema and name, as binding
    resolves them. Raises `UnknownSchema` for another schema, `StatementError` for more parts."""
    if not 1 <= len(parts) <= 2:
        raise StatementError(f"a table is named by name or by schema.name, not by {'.'.join(parts) or 'nothing'}")
    context = Context("", catalog, {}, bind_query, {}, session=session)
    schema = None if len(parts) == 1 else canonical(parts[0])
    if schema is not None:
        check_schema(schema, context)
        context.require_use(schema)
    return found_name(parts[-1], schema, context)

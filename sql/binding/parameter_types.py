"""Types of parameters before they have values: each has the type that its context requires.

    SELECT name FROM hosts WHERE rack = $1 AND seen > $2        rack INT, seen TIMESTAMP ─► $1 INT, $2 TIMESTAMP

The statement is bound with NULL for each parameter. `coercion.fit` brings a NULL to whatever type it is compared with,
assigned to or cast to, and notes that type in the parameter. One that nothing gives a type to, such as `SELECT $1`,
stays open.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...model.types import NULL, DataType
from ..bound import Statement
from ..expressions import OpenParameter
from ..placeholders import Given, positions
from ..session_facts import UNKNOWN_SESSION, SessionFacts
from ..syntax.parser import ParsedStatement
from .binder import bind_given
from .context import Catalog


def infer_parameters(
    parsed: ParsedStatement,
    catalog: Catalog,
    given: Sequence[DataType | None] = (),
    session: SessionFacts = UNKNOWN_SESSION,
) -> tuple[Statement, tuple[DataType | None, ...]]:
    """The statement bound without values, and the types of its parameters (None: open).

    Parameters
    ----------
    parsed : ParsedStatement
        With placeholders `?` or `$n`.
    catalog : Catalog
    given : sequence of DataType, optional
        Types of the first parameters that the caller has decided on; None: to be found.
    session : SessionFacts

    Raises as `binder.bind`, also where a value must be known.
    """
    places = positions(parsed)
    count = max(max(places.values(), default=-1) + 1, len(given))
    known = [given[i] if i < len(given) else None for i in range(count)]
    open_ = [OpenParameter(type_ or NULL, True, None, i) for i, type_ in enumerate(known)]
    statement = bind_given(parsed, catalog, Given(dict(enumerate(open_)), dict(places)), session=session).statement
    return statement, tuple(type_ or parameter.seen for type_, parameter in zip(known, open_, strict=True))

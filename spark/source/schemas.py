"""The schema of a relation: the one reported to Spark, and the one that a user declared instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...driver.connection import Connection
from ...errors import TypeMismatch, UnknownColumn, did_you_mean
from .. import workers
from ..types import NamedType, fits, from_spark, spark_schema
from . import changes, relation
from .options import SourceOptions, Use, parse

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def schema(options: Mapping[str, str]) -> StructType:
    """The schema of a batch read or a stream: Spark does not pass which it will be."""
    given = parse(options, Use.READ)
    columns = own_columns(workers.planning(given["url"], **given.client()), given)
    return spark_schema(columns, zoned=not given["preferTimestampNTZ"])


def own_columns(connection: Connection, given: SourceOptions) -> tuple[NamedType, ...]:
    """The columns of the relation according to the options."""
    if "startingTimestamp" in given:
        now = connection.store.now()
        text = changes.text(connection, given, now, now)
    else:
        text = relation.select(connection, given)
    return relation.columns_of(relation.bound_query(connection, text))


def declared(connection: Connection, given: SourceOptions, schema: StructType) -> list[str] | None:
    """The columns that Spark requests, which a user may have declared; None if they are the relation's own.

    Raises `UnknownColumn` for one that the relation does not have, `TypeMismatch` for one of another type.
    """
    own = {name: type_ for name, type_, _ in own_columns(connection, given)}
    wanted = from_spark(schema)
    for name, type_, _ in wanted:
        if name not in own:
            raise UnknownColumn(
                f"the declared schema has a column {name}, which the relation does not have"
                f"{did_you_mean(name, own, 'the relation has')}"
            )
        if not fits(own[name], type_):
            raise TypeMismatch(f"column {name} is {own[name]}; the declared schema has {type_}; values are not cast")
    names = [name for name, _, _ in wanted]
    return None if names == list(own) else names

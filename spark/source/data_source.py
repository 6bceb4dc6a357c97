"""The data source `nyala` as Spark meets it. Light: what it needs is loaded when it is asked for something."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceArrowWriter,
        DataSourceReader,
        DataSourceStreamArrowWriter,
        DataSourceStreamReader,
    )
    from pyspark.sql.types import StructType


class NyalaDataSource(DataSource):
    """Tables of a nyala store: see `nyala.spark.source` for what happens, and `options` for the options.

    Spark makes one for each relation, in a Python process of its own, and sends it to others.
    """

    @classmethod
    def name(cls) -> str:
        """What `format(...)` and `USING` say."""
        return "nyala"

    def schema(self) -> StructType:
        """The columns of what is read, where the user has not declared them."""
        from .schemas import schema

        return schema(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads the relation at one time."""
        from .batch_reader import reader

        return reader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Reads the changes of a table."""
        from .stream_reader import StreamReader

        return StreamReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Writes rows into a table."""
        from ..writing.batch import TableWriter

        return TableWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Writes the batches of a stream into a table."""
        from ..writing.stream import StreamSink

        return StreamSink(self.options, schema, overwrite)

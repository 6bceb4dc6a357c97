"""The data source `nyala` as registered with Spark. Cheap to import: its dependencies are loaded by its methods."""

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
    """Tables of a nyala store; `nyala.spark.source` describes the process, and `options` the options.

    Spark creates one for each relation, in a separate Python process, and sends it to others.
    """

    @classmethod
    def name(cls) -> str:
        """The name for `format(...)` and `USING`."""
        return "nyala"

    def schema(self) -> StructType:
        """The columns of the relation, if the user has not declared them."""
        from .schemas import schema

        return schema(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of the relation as of one snapshot."""
        from .batch_reader import reader

        return reader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The reader of the changes of a table."""
        from .stream_reader import StreamReader

        return StreamReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """The writer of rows into a table."""
        from ..writing.batch import TableWriter

        return TableWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """The writer of a stream's batches into a table."""
        from ..writing.stream import StreamSink

        return StreamSink(self.options, schema, overwrite)

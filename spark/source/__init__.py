"""The data source: format "nyala" in Spark, for batch reads and streams.

    .option(...) ─ options.parse ─► SourceOptions ─ relation.plan_relation ─► Relation ─┬─ its schema, as Spark's
                                                                                        └─ partitions.make_parts
                                                        worker of a task:  partition ─ scanning.read ─► batches

The life of a batch read:

1. Spark creates a `data_source.NyalaDataSource` with the options, in its own process. `options.parse` checks them.
   `relation.plan_relation` binds table or query, columns and condition in nyala's SQL and plans them. A plan that a
   scan with predicates can execute becomes a scan; any other stays a query.
2. `batch_reader.BatchReader.partitions` chooses the snapshot timestamp, once for the life of the relation.
   `partitions.make_parts` groups the scan tokens into the requested number of partitions.
3. In each task, `BatchReader.read` looks up the tablets over its own connection (`workers`), reads the tokens of its
   partition and returns Arrow batches with exactly Spark's schema.

A stream (`stream_reader`) reads the changes between two offsets, which are hybrid timestamps. `table_frame.table` reads
the same partitions by a faster transport: Arrow batches through `mapInArrow`.
"""

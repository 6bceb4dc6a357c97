"""The data source: what Spark reads as format "nyala", once or as a stream.

    .option(...) ─ options.parse ─► given options ─ relation.of ─► Relation ─┬─ its schema, as Spark's
                                                                             └─ partitions.made ─► scan tokens
                                                        worker of a task:  partition ─ scanning.read ─► batches

The life of a batch read:

1. Spark makes a `data_source.NyalaDataSource` of the options, in a process of its own. `options.parse` checks them,
   `relation.of` binds table or query, columns and condition in nyala's own SQL and plans them: what a scan with
   predicates can do is a scan, anything else stays a query.
2. `batch_reader.BatchReader.partitions` draws the time, once for the life of the relation, and `partitions.made`
   brings scan tokens into as many partitions as are wanted.
3. In each task `BatchReader.read` finds the tablets again by its own connection (`workers`), reads the tokens of its
   partition and gives out Arrow batches of exactly the schema that Spark was told.

A stream (`stream_reader`) reads changes instead, between two offsets, which are hybrid timestamps. `table_frame.table`
reads the same partitions by another road, which is faster: Arrow batches through `mapInArrow`.
"""

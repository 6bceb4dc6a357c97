"""Hash and range partitions: which tablet holds a row, and which tablets a predicate leaves out.

`partition.Partitioner` routes the rows of a write: the range first (`range_rule`), then the buckets of that range
(`hash_schema`). For a scan `pruning` turns the predicates into what is left of each key column.
"""

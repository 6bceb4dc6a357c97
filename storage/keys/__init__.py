"""Keys, hashes and partitions: which tablet has a row, which rowset may have it.

A look-up by key narrows the rowsets by interval (`rowset_tree`), then by each `bloom` filter, then by the key index.
`key_places` remembers where keys were found, `key_spans` measures for the compaction policy how rowsets overlap.
"""

"""Keys, hashes and partitions: which tablet has a row, which rowset may have it.

A look-up by key narrows the rowsets by interval (`rowset_tree`), then asks each `bloom` filter, then the key index.
`key_places` remembers where keys were found, `key_spans` tells the compaction policy how rowsets overlap.
"""

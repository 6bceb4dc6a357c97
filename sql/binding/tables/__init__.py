"""Binds CREATE TABLE and ALTER TABLE: columns, keys, partitions, types.

`create_table` makes a `TableDefinition` of columns, key and `partitions`, with the types of `type_names`;
`alter_table` makes the steps of an alteration. `show_create` goes the other way.
"""

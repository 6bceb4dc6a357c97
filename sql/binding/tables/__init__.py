"""Binds CREATE TABLE and ALTER TABLE: columns, keys, partitions, types."""

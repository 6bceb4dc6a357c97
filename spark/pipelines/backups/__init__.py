"""Backups: folders of Parquet files, each with a manifest; chains of backups, and the tables that they restore.

DEST/
  lock                        held while a backup is written
  000001/                     the first: every row of every table
    manifest.json             written last: a folder without it is not a backup
    tables/t000001/           by the table's permanent id
      t000001-p0000-3f2a.parquet    one tablet's rows, ascending by key
  000002/                     the next: the changes since
    manifest.json
    tables/t000001/
      t000001-p0000-91bc.parquet    one tablet's changes, by key and then by time
"""

"""Backups: folders of Parquet files, each with a manifest; chains of backups, and the tables that they restore.

    backup, restore   one snapshot of a store, then its changes since; tables as of any time between
    manifest          the table of contents of a backup      chains    the backups that restore a time
    tasks             a tablet's rows or changes to a file, and back        folding   rows and later changes as rows
    places            directories on disks, in S3, ...       running   threads that execute the tasks

DEST/
  lock                        held while a backup is written, in a local directory
  000001/                     the first: every row of every table
    manifest.json             written last: a folder without it is not a backup
    tables/t000001/           by the table's permanent id
      t000001-p0000-3f2a.parquet    one tablet's rows, ascending by key
  000002/                     the next: the changes since
    manifest.json
    tables/t000001/
      t000001-p0000-91bc.parquet    one tablet's changes, by key and then by time

The life of a backup: `backup.save_store` chooses the snapshot and makes a `tasks.SaveTask` for each tablet. A
`running.Run` executes them, in threads or in Spark's workers (`spark.pipelines`); the manifest is written last.
`restore.Restoring` finds the chain of a time and checks its files, then fills tables under temporary names.
"""

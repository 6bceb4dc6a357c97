"""Tables on disk: tablets, each one log, one MemRowSet and many DiskRowSets with deltas (Kudu paper, section 4).

    Database ── Catalog, MaintenanceManager, Memory
       └── TableStore ── Partitioner
              └── Tablet ──┬── WriteAheadLog        acknowledged writes, by key
                           ├── MvccManager          visible timestamps
                           └── TabletState ──┬── MemRowSet         rows since the last flush, in order of insertion
                                             └── StoredRowSet ...
                                                    ├── DiskRowSet       sorted rows: a column file each, Bloom filter
                                                    ├── DeltaFile ...    UNDO: before it; REDO: after it
                                                    └── DeltaMemStore    changes since the last delta flush

A change of an existing row is a *delta* (`deltas.deltas.Deltas`), in memory and in files alike. A deleted row stays as
a *ghost* until a compaction; its key inserted again is a new row. So a key may be in several places, and is visible in
at most one of them at any time.

The life of a write (`Store.write`):
1. `Memory.admit` admits it, with a delay if memory is short.
2. `writing.incoming_rows.incoming` converts the Arrow batch to the table's columns and types;
   `writing.incoming_rows.row_errors` refuses rows with a NULL in a NOT NULL column, or with too long a value.
3. `Partitioner.route` finds the tablet of each row.
4. `TabletWrite.probe` looks the keys up in the rowsets (`RowLocator.search`): `RowSetTree.candidates` by key interval,
   then in each `DiskRowSet.find`: Bloom filter, key index.
5. Under the tablets' write locks, `TabletWrite.check` searches the MemRowSets too, and later insertions and deletions
   (`RowLocator.locate`). `writing.op_resolution.resolve_ops` then resolves the ops: rows that are refused one by one
   (`AlreadyPresent`, `NotFound`, ...), and one change of each key. `writing.changed_since.changed_rows` finds rows that
   have changed since the caller read them (`WriteBatch.unchanged_since`), `writing.changed_since.refuse_changed_keys`
   those that have changed since a transaction began.
6. `TabletWrite.encode` makes the log entries, `tablet.mvcc.start_together` draws one timestamp, in flight on all
   tablets.
7. `TabletWrite.apply` appends the changes to the log (`WriteAheadLog.append`), new rows to the MemRowSet
   (`MemRowSet.insert`), deltas of existing rows to their DeltaMemStores (`NetChanges.deltas`).
8. Without the locks, `WriteAheadLog.sync` waits for the group commit: one of the waiting threads writes and syncs for
   all.
9. `MvccManager.commit` makes the changes visible; the write is acknowledged. If several tablets are changed, one record
   decides on all of them between 8 and 9: `writing.joint_write`, `log.commit_log.CommitLog`. One row of Python values
   takes the row path, with the same result: `single_rows.row_write.RowWriter`. Bulk loads (`TableBulkLoader`) write
   rowsets directly and publish them in one step (`loads.load_publish.publish`).

A transaction's COMMIT (`tables.transaction_commit.commit_changes`) is such a write, with batches for several tables:
`tables.atomic_write.AtomicWriter` does steps 5 to 9 for both.

The life of a scan (`Store.scan_tokens`, `Store.scan`):
1. `HybridClock.now` gives the snapshot timestamp, unless the spec has one.
2. `Partitioner.prune` skips tablets that the predicates exclude.
3. `Tablet.view` waits for writes in flight below the snapshot and pins the state; `HistoryGone` if that history was
   removed.
4. `reading.tablet_scan.cut` skips rowsets by their statistics and divides the rest into tokens.
5. For each token, in any thread, `reading.tablet_scan.scan_view` reads. If deltas affect this timestamp,
   `StoredRowSetView.all_patches` resolves them to one value per changed cell and the hidden rows (`latest_state`).
6. `DiskRowSet.scan` narrows by key range and page statistics, evaluates predicates on encoded pages, corrects the
   result for rows with patches (`rowsets.changed_rows_overlay.judge`), and returns batches of lazy columns.
   `MemRowSetSnapshot.scan` does the same over Arrow arrays, and skips rows above the snapshot.
7. A column is read when the executor accesses it, through the `PageCache`, for the rows that are still selected, and
   patched while it stays encoded (`patched_columns`). Scans in key order merge the sources
   (`reading.ordered_scan.scan_ordered`); diff scans read the changes between two timestamps
   (`reading.changes.scan_changes`); `single_rows.row_read.RowReader` looks up one row by its key.

The life of a flush or a compaction (`tablet`, from `Tablet.cut` to `Tablet.swap`):
1. `MaintenanceManager.run_one` collects the possible operations of every tablet (`TabletOperations.candidates`), and
   `maintenance.maintenance_policy.pick` chooses the best one.
2. `maintenance.tablet_flush.flush` makes DiskRowSets of the MemRowSet, `maintenance.tablet_flush.flush_deltas` a REDO
   file of a DeltaMemStore; `maintenance.delta_compaction.compact_minor` joins REDO files,
   `maintenance.delta_compaction.compact_major` rewrites columns with their deltas;
   `maintenance.rowset_compaction.compact_rowsets` merges rowsets that `CompactionPolicy.choose` named;
   `maintenance.history.perform` removes history that cannot be read any more.
3. All of them write new files (`NewFiles`), name them in the tablet's metadata in one replacement
   (`Tablet.write_metadata`), carry over concurrent changes, and replace the state (`Tablet.replace_rowsets`).
4. Unused files are removed when the last older `Pin` is released (`Tablet.retire`); `WriteAheadLog.remove_through`
   drops log segments whose entries are all in files.

The life of a store after a crash (`Database`):
1. The lock is free, since it ended with the process; `Catalog.read` reads the tables.
2. Folders without a table are removed: leftovers of an interrupted CREATE, ALTER or DROP TABLE.
3. `loads.load_record.complete_loads` completes a committed bulk load.
4. `tablet.tablet_replay.open_tablet` removes files that no metadata names, and `WriteAheadLog.recover` replays the log:
   a torn tail is cut, damage is an error. `Replay` finds the current place of the row of each change, and whether its
   files have the change already.

`tables.table_alteration.alter` changes a table in use, and rewrites no row. `inspect` reads a closed store:
`inspect.check.check_store.check_store` verifies every file, `inspect.dump.dump_file` shows one,
`inspect.layout.table_layout` shows the layout of rowsets over the keys.

Doors: the modules that other rooms import. A test holds the list.

| module | |
|---|---|
| `database` | `Database`: the embedded store, a directory or memory |
| `tables.store_directory` | the FORMAT file of a store's directory |
| `tables.catalog` | catalog entries, which a replica keeps of its own table |
| `tables.table_store` | one open table |
| `tables.tablet_descriptions` | tablets as clients see them, sampled keys |
| `tablet.tablet` | `Tablet`, its states, views and options |
| `tablet.between_transactions` | background work that prepared writes postpone |
| `tablet.prepared` | prepared writes of transactions |
| `tablet.staged` | rows of transactions that are only in the log yet |
| `tablet.tablet_apply` | log entries applied to a tablet |
| `tablet.tablet_metadata` | metadata of a tablet's files |
| `tablet.tablet_replay` | opening a tablet: files, then the log |
| `writing.staged_write` | log entries of a transaction, prepared as one write |
| `writing.tablet_write` | a batch of ops on one tablet |
| `writing.by_tablet` | rows of a batch by tablet |
| `writing.joined_batches` | several batches as one |
| `writing.incoming_rows` | rows brought to a table's columns and types, and refused rows |
| `single_rows.committers` | rows made durable together, for writers that do not wait |
| `single_rows.few_rows` | a small batch on one tablet, row by row |
| `single_rows.row_codec` | values of one row, held against their columns |
| `single_rows.row_read` | one row by key |
| `single_rows.row_rules` | rows that take the batch path |
| `single_rows.row_write` | one row written |
| `reading.tablet_scan` | scans of a tablet: cut into pieces, read |
| `rowsets.memrowset` | rows in memory: what they cost |
| `rowsets.rowset_metadata` | metadata of a DiskRowSet |
| `deltas.delta_file` | delta files of a copied replica |
| `deltas.single_deltas` | what a delta in memory costs |
| `columns.column_file` | rows of a row group |
| `columns.sketch` | sketches of values, merged into statistics |
| `keys.bloom` | Bloom filter files of a copied replica |
| `keys.key_spans` | rowsets over the keys, as the model of maintenance in bench/ has them |
| `loads.bulk_load` | a bulk load into one table |
| `loads.loading` | the part of bulk loads that all stores share |
| `log.tablet_log` | the log as a tablet sees it, and the context of a write |
| `log.decision` | the outcome that parts of a write wait for |
| `log.wal` | the write-ahead log: marks and tickets |
| `log.wal_format` | log entries as bytes |
| `log.wal_recovery` | segments read again |
| `maintenance.background` | the background work on a set of tablets: rounds, memory, housekeeping |
| `maintenance.manager` | background operations, one at a time |
| `maintenance.status` | operations as plain data |
| `maintenance.observed` | metrics, and rows of nyala_catalog |
| `maintenance.maintenance_ops` | flushes by size |
| `maintenance.maintenance_policy` | which operation is worth most |
| `maintenance.compaction_policy` | which rowsets are merged |
| `maintenance.delta_policy` | which deltas are merged |
| `maintenance.table_compaction` | COMPACT TABLE |
| `maintenance.tablet_flush` | flushes of a tablet |
| `statistics.analysis` | ANALYZE |
| `statistics.table_statistics` | statistics of a table |
| `tables.quotas` | sizes of tables with a quota |
| `files.filesystem` | `FileSystem`, the one way to the disk |
| `files.os_filesystem` | the file system of the machine |
| `files.io_limit` | the ceiling of bytes per second of background work |
| `files.checked_file` | small files with a checksum, replaced as a whole |
| `files.file_identity` | which tablet a file belongs to |
| `files.page_cache` | decoded pages |
| `files.spill_file` | temporary files of record batches |
| `transactions.transaction_store` | a transaction over any store |
| `malloc` | the allocator's settings |
| `inspect.check.check_store` | `nyala fs check` |
| `inspect.check.check_rowset` | one column file checked |
| `inspect.check.findings` | findings of a check |
| `inspect.copying.copy_store` | `nyala fs copy` |
| `inspect.cut_log` | `nyala fs cut-log` |
| `inspect.dump.dump_file` | `nyala fs dump` |
| `inspect.layout.table_layout` | rowsets over the keys, as data |
| `inspect.layout.layout_text` | the same as text |
| `inspect.layout.layout_svg` | the same as a picture |
| `inspect.repair.repair_store` | `nyala fs check --repair` |
| `inspect.salvage` | `nyala fs salvage` |
| `inspect.text` | tables and sizes as text |
"""

"""Tables on disk: tablets, each one log, one MemRowSet and many DiskRowSets (Kudu paper, section 4).

    Database ── Catalog
       └── TableStore ── Partitioner
              └── Tablet ──┬── WriteAheadLog      what was acknowledged
                           ├── MemRowSet          rows since the last flush, in the order they came
                           ├── DiskRowSet ...     sorted rows: a column file each, Bloom filter, key index
                           └── MvccManager        what may be seen

The life of a write (`Store.write`):
1. `incoming_rows.incoming` brings the Arrow batch to the table's columns and types; `incoming_rows.row_errors` refuses
   rows with a NULL where none may be, or with too long a value.
2. `Partitioner.route` says which tablet each row belongs to.
3. `TabletWrite.probe` looks the keys up in the rowsets (`RowLocator.search`): `RowSetTree.candidates` by key interval,
   then in each `DiskRowSet.find`: Bloom filter, key index.
4. Under the tablets' write locks, `TabletWrite.check` asks the MemRowSets too, and what has come and was deleted since
   (`RowLocator.locate`). `op_resolution.resolve_ops` then says what the ops come to: rows that are refused one by one
   (`AlreadyPresent`, `NotFound`, ...), and one change of each key.
5. `mvcc.start_together` draws one timestamp, in flight on all tablets.
6. `TabletWrite.apply` appends the changes to the log (`WriteAheadLog.append`), new rows to the MemRowSet
   (`MemRowSet.insert`), deltas of rows that are there to the DeltaMemStore of where they are (`NetChanges.deltas`).
7. Without the locks, `WriteAheadLog.sync` waits for the group commit's fsync.
8. `MvccManager.commit` lets readers see the changes; the write is acknowledged.
Later `tablet_flush.flush` turns the MemRowSet into DiskRowSets (`rowset_writer.write_rowsets`) and
`WriteAheadLog.remove_through` drops the log below. Bulk loads (`TableBulkLoader`) write rowsets directly and publish
them in one step (`load_publish.publish`).

The life of a scan (`Store.scan_tokens`, `Store.scan`):
1. `HybridClock.now` fixes the snapshot, unless the spec brings one.
2. `Partitioner.prune` leaves out tablets that the predicates rule out.
3. `Tablet.view` waits for writes in flight below the snapshot and pins what is to be read.
4. `tablet_scan.cut` leaves out rowsets by their statistics and cuts the rest into tokens.
5. For each token, in any thread, `tablet_scan.scan_view` reads: `DiskRowSet.scan` narrows by key range and page
   statistics, evaluates predicates on encoded pages and hands out batches of lazy columns; `MemRowSetSnapshot.scan`
   does the same over Arrow arrays, and passes over rows above the snapshot.
6. A column that the executor touches is read then, through the `PageCache`, for the rows that are still wanted.

The life of a store after a crash (`Database`):
1. The lock is free, since it ended with the process; `Catalog.read` says which tables there are.
2. Folders that no table owns are removed: what is left of an interrupted CREATE or DROP TABLE.
3. `load_record.complete_loads` finishes a bulk load that had happened.
4. `tablet_replay.open_tablet` removes files that no metadata names, and `WriteAheadLog.recover` replays the log: a
   torn tail is cut, damage is an error. `Replay` finds for each change where its row lies now, and whether the files
   there have the change already.

`inspect` looks at a store from outside: `inspect.check.check_store` verifies every file, `inspect.dump` shows one,
`inspect.layout` shows how rowsets lie over the keys.
"""

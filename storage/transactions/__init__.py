"""Transactions over a store: own rows, and what a transaction sees of both.

    TransactionStore ──┬── OwnRows ...          by table: entries of single rows, runs of batches
                       │      └── OwnRun ...    net states of keys, as columns
                       ├── TableReads ...       for SERIALIZABLE and FOR UPDATE
                       └── a Store              read at the snapshot, written by COMMIT

The life of a transaction:
1. `Store.begin` makes a `TransactionStore` at the store's latest timestamp.
2. `TransactionStore.write` resolves a batch as a tablet does (`batch_write.write_batch`), with the own entries and, for
   other keys, with the store's (`base_rows.BaseRows`); the result is a run. `TransactionStore.write_row` does the same
   for one row (`row_write.write_single`).
3. `TransactionStore.scan_tokens` puts the store's rows and the own ones together (`merged_scan.merged_tokens`).
4. `TransactionStore.commit` makes the newest entry of each key an INSERT, UPDATE, UPSERT or DELETE
   (`net_writes.net_writes`; `net_rows` for few single rows) and hands all of them to `Store.commit_transaction`.

A transaction keeps the versions of its own rows immutable: savepoints and scans refer to them.
"""

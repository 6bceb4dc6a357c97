"""Rows that leave memory for a while: temporary Arrow IPC files, rows cut by hash, and batches of any vectors as Arrow.

    batches ── encoded ──► record batches ── SpillFile ──► a file without a name ──► batches
       └── row_hashes, partition_numbers ──► PartitionedRows: 16 heaps, each small enough by itself, or cut again

Who spills when: `executor.run.memory`. How each operator goes on with what it has spilled is its own business.
"""

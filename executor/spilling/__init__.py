"""Spilling: temporary Arrow IPC files, rows partitioned by hash, and batches of any vectors as Arrow.

    batches ── encoded ──► record batches ── SpillFile ──► a file without a name ──► batches
       └── row_hashes, partition_numbers ──► PartitionedRows: 16 heaps, each small enough by itself, or cut again

`executor.run.memory` decides which operator spills, and when. Each operator defines how it continues afterwards.
"""

"""Inspection of a closed store: damage, contents of files, layout of rowsets.

    check/   check_store.check_store ─► findings.Report     every file of a store that no process has open
    dump/    dump_file.describe_file ─► text                one file of any kind
    copying/ copy_store.copy_store ─► StoreCopy             a consistent copy, also of a store that is open
    repair/  repair_store.repair_store ─► Repair            derived files anew, leftovers removed, readable rows saved
    layout/  table_layout.table_layout ─► TableLayout ─► layout_text.describe_layout, layout_svg.draw_layout

Only `cut_log` and `repair/` change files of the store. Formats and rules are defined by the modules that write and
read them; these modules call the same code and report all errors instead of the first.

The life of a check (`check.check_store.check_store`):
1. A shared lock keeps openers out; FORMAT and catalog list the files to check.
2. `check.check_table.check_table` reads the metadata of all tablets and completes, without writing, the bulk loads
   whose records a crash left.
3. `check.check_rowset.check_rowset` reads every column file page by page, the Bloom filter chunk by chunk, then the
   keys: ascending, found by the key index, within the bounds that the metadata has, in the right partition.
   `check.check_deltas.check_deltas` reads every delta file block by block and compares it with its footer and the
   metadata.
4. `check.check_log.check_log` reads every segment entry by entry; then the log is recovered as opening would recover
   it, with a `read_only.ReadOnlyFileSystem` in between, which drops what recovery writes.
5. `check.repeated_keys.repeated_keys` looks for keys that are then alive twice: in several rowsets, or in a rowset and
   the log.
6. Each step continues after a finding: a `Finding` has severity, file and position. Leftovers that opening the store
   would remove are notes, not errors.
"""

"""Looking at a store from outside, for people and tools: what is wrong, what a file holds, how rowsets lie.

    check/   check_store.check_store ─► findings.Report     every file of a store that no process has open
    dump/    dump_file.describe_file ─► text                one file of any kind
    layout/  table_layout.table_layout ─► TableLayout ─► layout_text.describe_layout, layout_svg.draw_layout

Nothing here changes a byte. Formats and rules live where they are written and read; these modules ask the same code and
report what it says, all of it instead of the first.

The life of a check (`check.check_store.check_store`):
1. A shared lock keeps openers out; FORMAT and catalog say what there is to check.
2. `check.check_table.check_table` reads the metadata of all tablets and finishes, in thought only, the bulk loads whose
   records a crash left.
3. `check.check_rowset.check_rowset` reads every column file page by page, the Bloom filter chunk by chunk, then the
   keys: ascending, found by the key index, within the bounds that the metadata has, in the right partition.
   `check.check_deltas.check_deltas` reads every delta file block by block and holds it against its footer and the
   metadata.
4. `check.check_log.check_log` reads every segment entry by entry; then the log is recovered as opening would recover
   it, with a `read_only.ReadOnlyFileSystem` in between, which drops what recovery writes.
5. `check.repeated_keys.repeated_keys` looks for keys that are then alive twice: in several rowsets, or in a rowset and
   the log.
6. Each step goes on behind what it finds: a `Finding` says how grave it is, in which file and where. What opening the
   store would clean up is a note, not an error.
"""

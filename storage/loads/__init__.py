"""Bulk loads: sorted rowsets are written directly and published in one step.

`bulk_load.TableBulkLoader` sorts rows by tablet and key (`loading`) and writes rowsets that nothing names yet.
`load_publish` writes a `load_record`, then names the rowsets in every tablet; after a crash the record decides whether
the load is completed or removed.
"""

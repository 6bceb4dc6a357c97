"""Checks of a store's files: `nyala fs check`.

`check_store` takes the tables one by one (`check_table`), each rowset with its deltas (`check_rowset`, `check_deltas`)
and each log (`check_log`), and collects `findings`. It reads only; `repeated_keys` finds keys that live twice.
"""

"""Consistent copies of a store, also while another process has it open and writes.

`copy_store.copy_store` reads a store in rounds until one is consistent; `copied_logs` reads and copies its logs.
"""

"""Repair of a closed store: `nyala fs check --repair`.

`repair_steps` finds what can be repaired without a loss: files that are derived from others, and files that provably
belong to nothing. `repair_store` executes these steps, checks again, and saves the readable rows of tablets that are
damaged all the same. No file with data is ever changed or removed.
"""

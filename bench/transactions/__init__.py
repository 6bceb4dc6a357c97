"""Transactions of several statements: nyala beside SQLite, DuckDB and PostgreSQL.

1. `measuring.measure` creates each workload's tables on each engine (`engines`), and runs it with a number of clients,
   the engines in turn.
2. `workloads` has the ten updates and the bank, `tpcc` the New-Order and Payment transactions of TPC-C.
3. After each run the workload checks its invariants: money is neither made nor lost, TPC-C's consistency conditions.
4. `report` makes tables of the results.
"""

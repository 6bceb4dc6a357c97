"""Expressions over batches: compiled to closures over kernels.

`evaluate` compiles a bound expression once for each execution. Calls look up their kernel in `kernel_table`; an
expression that may fail for a row or is expensive (`expression_costs`) is computed only for the rows that need it.
"""

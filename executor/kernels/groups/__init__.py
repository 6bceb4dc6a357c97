"""Rows with equal keys: codes of keys, order of rows, and groups of rows.

key_codes        key columns to unsigned integers, equal exactly where the keys are
hash_groups      grouping and numbering by hash: the compiled kernels, and what NumPy and Arrow do without them
row_order        whether rows are in order, where runs of equal ones begin, sorts
segments         groups as runs of rows in an order
numbered_groups  groups whose rows stay where they are
"""

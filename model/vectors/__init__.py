"""Columns of values in memory: vectors, their encodings, Arrow and Python values, row batches.

A tablet hands out columns as `vector.Vector`s, encoded as they lie on disk, and kernels compute on these forms.
`arrow_values` and `native_values` convert at the borders, `encoded_batches` carries vectors between processes as they
are, `row_batch` and `cells` serve single rows.
"""

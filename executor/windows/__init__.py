"""Window functions: partitions and frames of rows, and the values of calls over them.

`window` sorts the rows by partition and order and lays out their frames (`window_frames`). Functions of positions
(`window_values`) and aggregates over frames (`window_aggregates`, `window_blocks` for large ones) fill the new
columns.
"""

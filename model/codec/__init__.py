"""Values, predicates and tables as plain data, and plain data as bytes of msgpack.

`tables`, `predicates` and `values` turn objects into maps, lists and physical values, and back. `packing` turns these
into bytes. Files, log entries, scan tokens and messages all use this one form.
"""

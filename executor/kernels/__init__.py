"""Kernels: scalar functions over whole vectors. This folder does not depend on expressions, batches or threads.

    groups/      codes of keys, order of rows, groups of equal keys
    numbers/     integers with proven bounds, arithmetic over integers, exact decimals and floats, templates
    texts/       LIKE, substrings, case, trimming, regular expressions: vectorized, and per distinct value
    times/       date parts, truncation, intervals, bins, templates
    compare      = <> < <= > >= IS DISTINCT, IN, evaluated on codes if a vector has them
    boolean      three-valued AND, OR, NOT, IS ...
    conditional  CASE, COALESCE, NULLIF, GREATEST, LEAST: picking values row by row
    cast         every conversion between types
    hash_buckets the bucket of a HASH partition

All kernels take and return `model.vectors.vector.Vector`s of one length, propagate NULL by SQL's rules, and raise
nyala's errors. The value stored for a NULL is arbitrary, so no kernel may fail because of it.
"""

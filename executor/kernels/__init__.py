"""Kernels: scalar functions over whole vectors. This folder does not depend on expressions, batches or threads.

    numbers      vectors as integer arrays with proven bounds, and back; the path to wide decimals
    arithmetic   add sub mul div mod neg abs round ... over integers, exact decimals and floats
    compare      = <> < <= > >= IS DISTINCT, IN, evaluated on codes if a vector has them
    boolean      three-valued AND, OR, NOT, IS ...
    conditional  CASE, COALESCE, NULLIF, GREATEST, LEAST: picking values row by row
    text_...     LIKE, substrings, case, trimming, searching: vectorized, and per distinct value
    temporal     date parts, truncation, intervals
    cast         every conversion between types

All kernels take and return `model.vectors.vector.Vector`s of one length, propagate NULL by SQL's rules, and raise
nyala's errors. The value stored for a NULL is arbitrary, so no kernel may fail because of it.
"""

"""Kernels: scalar functions over whole vectors. Nothing here knows expressions, batches or threads.

    numbers      vectors as integer arrays with proven bounds, and back; the road to wide decimals
    arithmetic   add sub mul div mod neg abs round ... over integers, exact decimals and floats
    compare      = <> < <= > >= IS DISTINCT, IN, evaluated on codes where a vector has them
    boolean      three-valued AND, OR, NOT, IS ...
    choose       CASE, COALESCE, NULLIF, GREATEST, LEAST: picking values row by row
    text         LIKE, substrings, case, trimming, searching
    temporal     date parts, truncation, intervals
    cast         every conversion between types

All take and give `model.vectors.vector.Vector`s of one length, propagate NULL as SQL says, and raise nyala's errors. A
value under a NULL is arbitrary, so no kernel may fail because of one.
"""

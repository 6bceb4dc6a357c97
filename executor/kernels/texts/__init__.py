"""Kernels of texts: patterns, pieces, case, searching.

`text_vectorized` computes whole columns with Arrow's kernels. `like_search` finds plain pieces of LIKE patterns,
`regex` and `regex_matches` evaluate regular expressions with RE2. Functions for which Arrow has no kernel are called
once for each distinct text (`text_per_value`).
"""

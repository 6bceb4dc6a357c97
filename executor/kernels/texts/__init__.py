"""Kernels of texts: patterns, pieces, case, searching.

`text_vectorized` computes whole columns with Arrow's kernels. `like_search` finds plain pieces of LIKE patterns,
`regex` and `regex_matches` evaluate regular expressions with RE2. `text_pieces` pads, splits and overlays,
`text_characters` changes single characters in the bytes of all texts at once, `text_digests`
computes MD5. What neither Arrow nor numpy computes is
called once for each distinct text (`text_per_value`).
"""

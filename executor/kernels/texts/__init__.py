"""Kernels of texts: patterns, pieces, case, searching.

`text_vectorized` computes whole columns with Arrow's kernels, `text_slices` cuts them by positions. `like_search` finds
plain pieces of LIKE patterns, `regex` and `regex_matches` evaluate regular expressions with RE2. `text_pieces` pads,
splits and overlays, `text_characters` changes single characters in the bytes of all texts at once. `text_digests`
computes MD5, `text_encodings` hex and base64, `edit_distance` Levenshtein's distance. `text_quoting` quotes texts and
has `format`; `text_per_value` has the rest.
"""

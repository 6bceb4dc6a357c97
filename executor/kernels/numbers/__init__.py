"""Kernels of numbers: arithmetic, functions of mathematics, and templates.

A vector becomes integer arrays with proven bounds (`bounded_integers`), so that `arithmetic` knows before it computes
whether 64 bits suffice. Wider integers are computed as several arrays (`limbs`), wide quotients by `wide_division`.
`mathematics` has the functions of DOUBLE, `number_templates` formats and parses single numbers; `number_writing`
formats columns, `number_reading` parses them.
"""

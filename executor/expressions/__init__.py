"""Expressions over batches: compiled to closures over kernels."""

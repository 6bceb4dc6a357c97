"""Predicates of a scan, brought to encoded pages and evaluated there.

`bind_predicates` binds a scan's predicates to the columns of a rowset: key columns become a range of rows
(`key_index`), others conditions on the codes of a page (`code_conditions`). `evaluation` applies them to vectors.
"""

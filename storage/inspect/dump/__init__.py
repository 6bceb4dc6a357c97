"""One file of a store as text: `nyala fs dump`.

`dump_file` recognizes a file by its first bytes and has the module of its kind print it. Nothing but the file is
needed: `column_footer` reads a column without its table's schema.
"""

"""A column on disk: encodings, compression, pages, and the file that they make up.

`column_writer` encodes the values page by page (`encodings`, `page_layouts`), in the encoding that was declared or
that `encoding_choice` measured, compresses pages (`compression`), and writes a footer with an index and a `sketch`.
`column_reader` reads the footer once and pages as they are needed. `column_file` draws the format.
"""

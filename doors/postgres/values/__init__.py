"""Values as the protocol has them.

types         oids, sizes and modifiers of types, with the numbers that PostgreSQL gives them
columns       a column of a batch as fields: all of one width, or of varying widths
numerics      the binary form of DECIMAL, in both directions, as whole columns
rows          columns to DataRow messages, or to the messages of COPY in the binary format
single_rows   the same for one row of Python values
parameters    parameters of statements to Python values
copy_text     COPY in the text and CSV formats: rows to messages, data to columns
copy_binary   COPY in the binary format: data to batches, block by block
copy_rows     begin and length of the fields of a block
copy_columns  fields of a block to a column
kernels       the compiled kernels of rows and numerics, if they are installed
"""

"""The messages of Flight SQL: classes of the package protobuf, made when they are first used.

declarations   names, fields and types of the messages, as text
messages       classes of them; bytes to a message and back, checked
numbers        the numbers that messages and results use in place of names
"""

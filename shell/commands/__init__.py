"""Backslash commands of the shell.

A line that begins with a backslash goes to `commands.run`, which finds its row in `commands.COMMANDS`; `describe`
prints tables and views, `rerun` runs the last statement or a file in another way.
"""

"""The interactive SQL shell: `nyala shell [TARGET]`.

    keyboard or text ─► StatementReader ─► Shell.run ─┬─ commands.run      lines that begin with a backslash
                                                      └─ Console.execute ─► formats.write ─► pipe, pager or file

The life of an input:

1. `repl.interact` reads lines at a terminal, with highlighting, history and completion; `cli.shell_command` reads
   a text, a file or a pipe without any of that.
2. `reader.StatementReader` collects lines until a statement is complete: a `;` outside quotes and comments.
3. `shell.Shell` hands it to `console.Console`, which executes it, under a `progress_bar.ProgressBar` at a terminal,
   and hands the batches to `formats.write`, which prints them one by one: into a pipe, through `pager.Pages` at a
   terminal, or into an `output.OutputFile`. Then row count and time follow.
4. A line that begins with a backslash goes to `commands.commands.run` instead: `\\d` (`commands.describe`), `\\watch`
   and others that run statements in their own ways (`commands.rerun`), and switches. Commands work on the `Console`.
5. An error is printed with the place it is at. At a terminal the next prompt follows; otherwise the shell ends with
   exit code 1.
"""

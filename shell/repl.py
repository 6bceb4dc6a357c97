"""The shell at a terminal: prompt_toolkit gives it highlighting, history, completion and editing of many lines."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer

from .. import __version__
from .completion import SqlCompleter
from .highlighting import NyalaLexer
from .reader import StatementReader, is_blank, split
from .runner import Shell

PROMPT = "nyala> "
CONTINUATION = "  ...> "


def interact(shell: Shell, target: str) -> int:
    """Read, run and print until the user leaves; the exit code."""
    print(f"nyala {__version__}, {target}. SQL ends with a semicolon; \\? explains the commands, \\q leaves.")
    # A parent that runs things in the background may have had Ctrl-C ignored, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    session = _session(shell)
    while True:
        try:
            text = session.prompt()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return 0
        try:
            _run_all(shell, text)
        except EOFError:
            return 0
        except KeyboardInterrupt:
            print("cancelled")


def _run_all(shell: Shell, text: str) -> None:
    """Everything that one prompt gave, up to the first error."""
    reader = StatementReader()
    for item in reader.feed(text + "\n"):
        if not shell.run(item):
            return
    for item in reader.finish():
        shell.run(item)


def is_complete(text: str) -> bool:
    """Does Enter run this text (or does it begin another line)?

    >>> is_complete("select 1"), is_complete("select 1;"), is_complete("\\\\dt")
    (False, True, True)
    """
    if is_blank(text) or text.lstrip().startswith("\\"):
        return True
    spans, inside = split(text)
    rest = text[spans[-1][1] + 1 :] if spans else text
    return not inside and bool(spans) and is_blank(rest)


def _session(shell: Shell) -> PromptSession[str]:
    session: PromptSession[str] = PromptSession(
        PROMPT,
        lexer=PygmentsLexer(NyalaLexer),
        completer=SqlCompleter(shell.connection),
        complete_while_typing=False,
        history=_history(),
        multiline=True,
        prompt_continuation=CONTINUATION,
        key_bindings=_bindings(),
    )
    return session


def _bindings() -> KeyBindings:
    bindings = KeyBindings()

    def complete() -> bool:
        from prompt_toolkit.application import get_app

        buffer = get_app().current_buffer
        return is_complete(buffer.text) and buffer.complete_state is None

    @bindings.add("enter", filter=Condition(complete))
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    return bindings


def _history() -> History:
    """`$NYALA_HISTORY`, or a file in the user's state directory; in memory where that cannot be written."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    path = Path(os.environ.get("NYALA_HISTORY") or state / "nyala" / "history")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))

"""The shell at a terminal: prompt_toolkit gives it highlighting, history, completion and editing of many lines."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer

from ..driver.stores.open_stores import MEMORY
from ..model.version import __version__
from .commands.rerun import read_file
from .completion import SqlCompleter
from .highlighting import NyalaLexer
from .reader import StatementReader, is_blank, split
from .shell import Shell

NAME = "nyala"
CONTINUATION = "..."
_EDIT = re.compile(r"(.*)^\s*\\e\s*", re.DOTALL | re.MULTILINE)
"""A last line that sends the text above it to the editor."""


def interact(shell: Shell, rc: Path | None = None, *, is_served: bool = False) -> int:
    """Run the file `rc`, then read, run and print until the user leaves; the exit code.

    `is_served`: other processes reach the store, which the banner says."""
    target = "in memory" if shell.target == MEMORY else shell.target
    print(f"nyala {__version__}, {target}. SQL ends with a semicolon; \\? explains the commands, \\q leaves.")
    if is_served:
        print("Other processes of this machine can connect to the directory meanwhile; \\serve says how.")
    # A parent that runs things in the background may have had Ctrl-C ignored, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    session = _session(shell, target)
    try:
        if rc is not None:
            shell.run_lines([read_file(rc)])
    except EOFError:
        return 0
    except KeyboardInterrupt:
        print("cancelled")
    while True:
        try:
            draft, shell.draft = shell.draft, ""
            # Ctrl-C is a key while the prompt has the terminal. As a signal it comes when the prompt is just leaving,
            # and prompt_toolkit's own handler would lose it then, or when it is just coming: `asyncio.run` forgets that
            # it was a signal that cancelled its task if that was before the task's first step.
            text = session.prompt(default=draft, handle_sigint=False)
        except (KeyboardInterrupt, asyncio.CancelledError):
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
    """Execute all statements of one prompt, up to the first error."""
    edited = _EDIT.fullmatch(text)
    if edited is not None and not is_blank(edited[1]):
        shell.edit(edited[1].strip())
        return
    reader = StatementReader()
    for item in reader.feed(text + "\n"):
        if not shell.run(item):
            return
    for item in reader.finish():
        shell.run(item)


def is_complete(text: str) -> bool:
    """True if Enter runs this text, False if it begins another line.

    >>> is_complete("select 1"), is_complete("select 1;"), is_complete("\\\\dt")
    (False, True, True)
    """
    if is_blank(text) or text.lstrip().startswith("\\") or _EDIT.fullmatch(text):
        return True
    spans, inside = split(text)
    rest = text[spans[-1][1] + 1 :] if spans else text
    return not inside and bool(spans) and is_blank(rest)


def _session(shell: Shell, target: str) -> PromptSession[str]:
    session: PromptSession[str] = PromptSession(
        lambda: prompt(shell),
        lexer=PygmentsLexer(NyalaLexer),
        completer=SqlCompleter(shell.connection),
        complete_while_typing=False,
        auto_suggest=AutoSuggestFromHistory(),
        bottom_toolbar=lambda: status(shell, target),
        history=_history(),
        enable_open_in_editor=True,
        multiline=True,
        prompt_continuation=lambda width, number, wraps: f"{CONTINUATION}> ".rjust(width),
        key_bindings=_bindings(),
    )
    return session


def _bindings() -> KeyBindings:
    bindings = KeyBindings()

    def complete() -> bool:
        from prompt_toolkit.application import get_app

        buffer = get_app().current_buffer
        return is_complete(buffer.text) and buffer.complete_state is None

    def choosing() -> bool:
        from prompt_toolkit.application import get_app

        return get_app().current_buffer.complete_state is not None

    typing = has_focus(DEFAULT_BUFFER)

    @bindings.add("enter", filter=typing & Condition(complete))
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @bindings.add("enter", filter=typing & Condition(choosing))
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None

    return bindings


def prompt(shell: Shell) -> str:
    """The prompt: with a star in a transaction, as psql has it, and with `!` in one that can only be rolled back."""
    transactions = shell.reading.session.transactions
    mark = "!" if transactions.is_failed else "*" if transactions.is_open else ""
    return f"{NAME}{mark}> "


def status(shell: Shell, target: str) -> StyleAndTextTuples:
    """The line at the bottom: target, timestamp of `\asof`, settings, and the time of the last statement."""
    facts = [target]
    if shell.moment:
        facts.append(f"as of {shell.moment} UTC")
    if shell.file is not None:
        facts.append(f"results to {shell.file.path}")
    elif shell.format != "table":
        facts.append(shell.format)
    if shell.expanded != "off":
        facts.append(f"\\x {shell.expanded}")
    if shell.serving.has_failed:
        facts.append("not served: \\serve says why")
    if shell.seconds is not None:
        facts.append(f"last {1000 * shell.seconds:,.1f} ms")
    return [("", " " + "  |  ".join(facts) + " ")]


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

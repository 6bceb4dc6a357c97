"""A shell at a pseudo-terminal, with the screen that a user would see."""

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

import pyte

COLUMNS, LINES = 100, 40


class Terminal:
    """A shell at a pseudo-terminal: `text` is what it has printed, without escape sequences, `screen` how that looks.

    Whatever is awaited may take long on a busy machine; nothing here sleeps for a fixed time.
    """

    def __init__(self, *arguments, **environment):
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm", **environment)
            os.execv(sys.executable, [sys.executable, "-m", "nyala", "shell", *map(str, arguments)])
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self.text = ""
        self.screen = pyte.Screen(COLUMNS, LINES)
        # A terminal replies to a query of its cursor position as if by keys.
        self.screen.write_process_input = lambda answer: os.write(self.master, answer.encode())
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stream = pyte.ByteStream(self.screen)

    def wait_for(self, pattern, seconds=60.0):
        """Read until the pattern has been printed since the last call; what was printed up to then."""
        deadline = time.monotonic() + seconds
        while (match := re.search(pattern, self.text)) is None:
            if not self._read(deadline):
                raise AssertionError(f"{pattern!r} did not appear in {self.text[-2000:]!r}")
        seen, self.text = self.text[: match.end()], self.text[match.end() :]
        return seen

    def wait_to_see(self, pattern, seconds=60.0):
        """Read until the pattern is on the screen; the screen's lines."""
        deadline = time.monotonic() + seconds
        while re.search(pattern, self.seen) is None:
            assert self._read(deadline), f"{pattern!r} did not appear on the screen:\n{self.seen}"
        return self.seen.splitlines()

    @property
    def seen(self):
        """Text on the screen."""
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip()

    def _read(self, deadline):
        """Read what is there; False at the end of the shell, or of the time."""
        ready, _, _ = select.select([self.master], [], [], max(0.0, deadline - time.monotonic()))
        try:
            read = os.read(self.master, 65536) if ready else b""
        except OSError:
            return False
        self._stream.feed(read)
        data = self._decoder.decode(read)
        self.text += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]|\r", "", data)
        return bool(read)

    def type(self, text):
        """Press keys at the prompt; before it appears, the terminal itself would take them."""
        self.wait_for(r"(nyala|\.\.\.)>")
        os.write(self.master, text.encode())

    def press(self, text):
        """Press keys while a statement runs."""
        os.write(self.master, text.encode())

    def end(self, seconds=60.0):
        """Wait for the shell to end; its exit code."""
        deadline = time.monotonic() + seconds
        while self._read(deadline):
            pass
        return self.kill(time.monotonic() >= deadline)

    def kill(self, now=True):
        """Collect the shell, killed first where it has not ended; its exit code. May be repeated."""
        if self.master >= 0:
            if now:
                os.kill(self.pid, signal.SIGKILL)
            _, self.status = os.waitpid(self.pid, 0)
            os.close(self.master)
            self.master = -1
        return os.waitstatus_to_exitcode(self.status)

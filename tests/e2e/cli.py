"""Drives the `angelia` command as a person at a terminal does: starts it, reads it, ends it."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import psutil

from app.config import Settings
from tests.servers.ports import free_port
from tests.servers.warm import COMMAND_LINE, WarmProcess, run_command_line, running_warm, warm

PATIENCE_S = 60.0
_LOOK_EVERY_S = 0.05
_COMMAND = (sys.executable, "-P", "-m", COMMAND_LINE)


class Command:
    """A running command; everything it writes, line by line."""

    def __init__(
        self, process: subprocess.Popen[str] | WarmProcess, streams: Sequence[IO[str]]
    ) -> None:
        self.process = process
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self._readers = [
            threading.Thread(target=self._read, args=(stream,), daemon=True) for stream in streams
        ]
        for reader in self._readers:
            reader.start()

    @property
    def output(self) -> str:
        """All it has written so far."""
        with self._changed:
            return "".join(self._lines)

    def says(self, text: str, *, after: int = 0) -> int:
        """Wait until it has written `text` behind position `after`; where that ends."""
        deadline = time.monotonic() + PATIENCE_S
        with self._changed:
            while (found := "".join(self._lines).find(text, after)) < 0:
                left = deadline - time.monotonic()
                assert left > 0, f"{text!r} did not come:\n{''.join(self._lines)}"
                assert self._open(), f"{text!r} did not come before its end:\n{self._lines}"
                self._changed.wait(min(left, 0.5))
        return found + len(text)

    def interrupt(self) -> int:
        """Ctrl-C, as a terminal sends it to all of the foreground; the exit code."""
        return self.end(signal.SIGINT)

    def end(self, number: signal.Signals) -> int:
        """Send a signal to the process group, unless it has ended, and wait for the exit code."""
        # The number of a group that has ended may be that of another by now.
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
        return self.wait()

    def wait(self) -> int:
        """Wait for its end, and for the last of what it wrote."""
        try:
            status = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end:\n{self.output}") from None
        for reader in self._readers:
            reader.join(PATIENCE_S)
        return status

    def _open(self) -> bool:
        return any(reader.is_alive() for reader in self._readers)

    def _read(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                with self._changed:
                    self._lines.append(line)
                    self._changed.notify_all()


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A home and a port of its own: commands started here belong together.

    They begin warm, but for what they start themselves. In a `directory` they are started as
    `angelia` is, by `program`: what lies there is not among Python's paths.
    """

    home: Path
    port: int = field(default_factory=free_port)
    settings: Mapping[str, str] = field(default_factory=dict)
    directory: Path | None = None
    program: Sequence[str] = _COMMAND
    # Without a Java, `up` starts no Spark runner, and jobs wait until they are cancelled.
    with_java: bool = False

    @property
    def url(self) -> str:
        """Where its API is."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of its commands: of ours, home and port are set, and `settings`."""
        ours = {f"ANGELIA_{name}".upper() for name in Settings.model_fields}
        rest = {name: text for name, text in os.environ.items() if name not in ours}
        return rest | {
            "ANGELIA_HOME": str(self.home),
            "ANGELIA_PORT": str(self.port),
            # The demonstration makes a home of its own in here.
            "TMPDIR": str(self.home.parent),
            **({} if self.with_java else {"JAVA_HOME": str(self.home.parent / "none")}),
            **self.settings,
        }

    def run(self, *arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        if self.directory is None:
            return run_command_line(
                *arguments, environment=self.environment, text=text, timeout=PATIENCE_S
            )
        return subprocess.run(
            [*self.program, *arguments],
            env=self.environment,
            cwd=self.directory,
            input=text,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    @contextmanager
    def started(self, *arguments: str) -> Iterator[Command]:
        """A command that runs inside the block; it is killed after it if it still does."""
        command = self._warm(arguments) if self.directory is None else self._cold(arguments)
        try:
            yield command
        finally:
            command.end(signal.SIGKILL)

    def _warm(self, arguments: tuple[str, ...]) -> Command:
        (output, said), (errors, complained) = os.pipe(), os.pipe()
        process = warm().start(
            COMMAND_LINE,
            *arguments,
            environment=self.environment,
            output=said,
            errors=complained,
            finds_here=False,
            new_session=True,
        )
        os.close(said)
        os.close(complained)
        return Command(process, [os.fdopen(output), os.fdopen(errors)])

    def _cold(self, arguments: tuple[str, ...]) -> Command:
        process = subprocess.Popen(
            [*self.program, *arguments],
            env=self.environment,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        return Command(process, [process.stdout, process.stderr])

    def processes(self, *words: str) -> list[psutil.Process]:
        """The live processes of this place whose command line has all these words."""
        return [each for each in psutil.process_iter() if self._has(each, words)]

    def _has(self, process: psutil.Process, words: tuple[str, ...]) -> bool:
        try:
            line = process.cmdline()
            home = process.environ().get("ANGELIA_HOME", "")
            return (
                process.status() != psutil.STATUS_ZOMBIE
                and home.startswith(str(self.home.parent))
                and all(word in line for word in words)
            )
        except psutil.Error:
            return False

    def is_deserted(self) -> bool:
        """Whether nothing runs here any more, servers of the embedded database included."""
        here = self.home.parent
        # To the system what was forked warm has the environment of its parent.
        warm_here = any(each.home.startswith(str(here)) for each in running_warm())
        servers = list(here.glob("*/postgres/postmaster.pid"))
        return not (warm_here or servers or self.processes())


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait until `condition` holds; AssertionError with `what` after PATIENCE_S."""
    deadline = time.monotonic() + PATIENCE_S
    never = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, what
        never.wait(_LOOK_EVERY_S)

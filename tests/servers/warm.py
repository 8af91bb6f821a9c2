"""Our programs in processes of their own, which begin warm: forked from one that imported them.

To import the service takes a process two seconds of CPU, and the tests start hundreds. Here the
imports are done once for all tests of a pytest process; all else is as `python -m` has it. What a
start itself does is tested with real ones: `angelia up` starts its children so.
"""

import asyncio
import atexit
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Final

import app.cli.commands
from tests.servers import warm_parent

ROOT: Final = Path(__file__).parents[2]
COMMAND_LINE: Final = "app.cli.main"
# What the parent imports; not what is run as `__main__`.
SERVICE: Final = (
    "app.main",
    "workers.process",
    *(
        name
        for package in (app.cli, app.cli.commands)
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
        if (name := module.name) != COMMAND_LINE
    ),
    # What is imported when it is needed: most tests need one of them.
    "alembic.command",
    "app.certificates",
    "app.filtering.paths",
    "app.log.kafka",
    "app.log.postgres.tables",
    "app.schemas.avro",
    "app.schemas.json_schema",
    "cryptography.hazmat.primitives.ciphers.aead",
    "httpcore",
    "prometheus_client",
    "re2",
    "workers.telemetry.status_page",
    "workers.transport.http2_pool",
)


@dataclass(frozen=True, slots=True)
class Version:
    """The code of a version, and a Python that has what this code needs.

    Code that is compiled runs so, unless it is to run `interpreted`.
    """

    root: Path
    python: str = sys.executable
    interpreted: bool = False


THIS: Final = Version(ROOT)


class WarmProcess:
    """A process that runs a program; `subprocess.Popen`, as far as tests use it.

    `home` is its `ANGELIA_HOME`.
    """

    def __init__(self, reports: int, home: str = "") -> None:
        self.home = home
        self._reports = os.fdopen(reports, "rb", buffering=0)
        self.pid = int(self._line())
        self._returncode: int | None = None

    @property
    def returncode(self) -> int | None:
        """Its exit code, or the signal that ended it as a negative number; None while it runs."""
        return self.poll()

    @property
    def runs(self) -> bool:
        """Whether it runs; any thread may ask, beside one that waits for its end."""
        try:
            return self._returncode is None and not select.select([self._reports], [], [], 0)[0]
        except ValueError:  # who waited has closed the pipe meanwhile
            return False

    def poll(self) -> int | None:
        """The same."""
        if self._returncode is None and select.select([self._reports], [], [], 0)[0]:
            self._ended()
        return self._returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; subprocess.TimeoutExpired."""
        if self._returncode is None and not select.select([self._reports], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("a warm process", timeout or 0)
        return self._ended()

    async def ended(self) -> int:
        """Wait for its end without holding up the loop."""
        loop, readable = asyncio.get_running_loop(), asyncio.Event()
        if self._returncode is None:
            loop.add_reader(self._reports, readable.set)
            try:
                await readable.wait()
            finally:
                loop.remove_reader(self._reports)
        return self._ended()

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            # Its parent may have heard of its end sooner than we do.
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it as `kill -9` does."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def _ended(self) -> int:
        if self._returncode is None:
            self._returncode = int(self._line())
            self._reports.close()
        return self._returncode

    def _line(self) -> bytes:
        line = self._reports.readline()
        assert line, "the parent of the warm processes has ended"
        return line


class WarmParent:
    """The process that they are forked from; `root` has the code that it runs."""

    def __init__(self, modules: tuple[str, ...], version: Version) -> None:
        self.root = version.root
        self._requests, theirs = socket.socketpair()
        # Tests ask for processes from threads, too.
        self._turn = threading.Lock()
        program = [version.python, "-P", str(Path(warm_parent.__file__))]
        environment = {**os.environ, "PYTHONPATH": str(self.root)}
        if version.interpreted:
            environment["ANGELIA_INTERPRETED"] = "1"
        with theirs:
            self._process = subprocess.Popen(
                [*program, str(theirs.fileno()), str(self.root), *modules],
                env=environment,
                pass_fds=[theirs.fileno()],
                # None of them a terminal, as none of those of its children is.
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                # A Ctrl-C of the test run must reach the tests first.
                start_new_session=True,
            )

    def start(
        self,
        module: str,
        *arguments: str,
        environment: Mapping[str, str],
        output: int,
        errors: int,
        text: int | None = None,
        directory: Path | None = None,
        finds_here: bool = True,
        new_session: bool = False,
    ) -> WarmProcess:
        """Run a module as `python -m` does, or as `python -P -m` unless it `finds_here`.

        It writes to the files `output` and `errors`, and reads `text`, or nothing.
        """
        request = {
            "module": module,
            "arguments": arguments,
            "environment": dict(environment),
            "directory": str(directory or self.root),
            "finds_here": finds_here,
            "new_session": new_session,
        }
        reports, reported = os.pipe()
        with Path(os.devnull).open() as nothing, self._turn:
            given = nothing.fileno() if text is None else text
            warm_parent.send_request(self._requests, request, [given, output, errors, reported])
        os.close(reported)
        process = WarmProcess(reports, environment.get("ANGELIA_HOME", ""))
        _started[:] = [*running_warm(), process]
        return process

    def wait_until_ready(self) -> None:
        """Return when it has imported all: its first process waits for that."""
        with Path(os.devnull).open("w") as nothing:
            sink = nothing.fileno()
            # A module that does nothing.
            self.start("keyword", environment={}, output=sink, errors=sink).wait()

    def end(self) -> None:
        """End it, and what it has forked that still runs."""
        self._requests.close()
        self._process.wait()


# By all parents of this pytest process.
_started: list[WarmProcess] = []


def running_warm() -> list[WarmProcess]:
    """The warm processes of this pytest process that still run."""
    return [each for each in _started if each.runs]


@cache
def warm(modules: tuple[str, ...] = SERVICE, version: Version = THIS) -> WarmParent:
    """The parent of this pytest process that has imported `modules`, started when first needed."""
    parent = WarmParent(modules, version)
    atexit.register(parent.end)
    return parent


def run_command_line(
    *arguments: str, environment: Mapping[str, str], text: str | None, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run an `angelia` command to its end, with `text` as its input: as `subprocess.run` does."""
    with (
        tempfile.TemporaryFile("w+") as said,
        tempfile.TemporaryFile("w+") as complained,
        tempfile.TemporaryFile("w+") as given,
    ):
        given.write(text or "")
        given.seek(0)
        process = warm().start(
            COMMAND_LINE,
            *arguments,
            environment=environment,
            output=said.fileno(),
            errors=complained.fileno(),
            text=given.fileno(),
            finds_here=False,
        )
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        return subprocess.CompletedProcess(arguments, code, _all_of(said), _all_of(complained))


def _all_of(file: IO[str]) -> str:
    file.seek(0)
    return file.read()

"""Runs Angelia's programs in processes that are forked from a process that has imported them.

To import the service takes a process two seconds of CPU time, and tests start hundreds of
processes. Here, the imports are done once for all tests of a pytest process. Everything else is as
with `python -m`. How a process starts is tested with real starts: `angelia up` starts its processes
without this module.
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
# The modules that the parent process imports before it forks. A module that runs as `__main__` is
# not among them.
SERVICE: Final = (
    "app.main",
    "workers.process",
    *(
        name
        for package in (app.cli, app.cli.commands)
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
        if (name := module.name) != COMMAND_LINE
    ),
    # Modules that the service imports only when it needs them. Most tests need one of them.
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

# The module that a real worker imports at its start.
WORKER: Final = ("workers.process",)


@dataclass(frozen=True, slots=True)
class Version:
    """The code of a version of Angelia, and a Python that has the packages it needs.

    If the code has compiled modules, they are used unless `interpreted` is true.
    """

    root: Path
    python: str = sys.executable
    interpreted: bool = False


THIS: Final = Version(ROOT)


class WarmProcess:
    """A forked process that runs a program, with the methods of `subprocess.Popen` that tests use.

    `home` is the value of `ANGELIA_HOME` in the process.
    """

    def __init__(self, reports: int, home: str = "") -> None:
        self.home = home
        self._reports = os.fdopen(reports, "rb", buffering=0)
        self.pid = int(self._line())
        self._returncode: int | None = None

    @property
    def returncode(self) -> int | None:
        """The exit code; None while the process runs.

        A signal that ended the process is a negative number.
        """
        return self.poll()

    @property
    def runs(self) -> bool:
        """Whether the process runs.

        Any thread may read this, even while another one waits for the end.
        """
        try:
            return self._returncode is None and not select.select([self._reports], [], [], 0)[0]
        except ValueError:  # the process has ended, and another thread has closed the pipe
            return False

    def poll(self) -> int | None:
        """Return the same as `returncode`."""
        if self._returncode is None and select.select([self._reports], [], [], 0)[0]:
            self._ended()
        return self._returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the process has ended, and return its exit code.

        Raises:
            subprocess.TimeoutExpired: The process still runs after `timeout` seconds.
        """
        if self._returncode is None and not select.select([self._reports], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("a warm process", timeout or 0)
        return self._ended()

    async def ended(self) -> int:
        """Wait until the process has ended, and return its exit code.

        The event loop is not blocked.
        """
        loop, readable = asyncio.get_running_loop(), asyncio.Event()
        if self._returncode is None:
            loop.add_reader(self._reports, readable.set)
            try:
                await readable.wait()
            finally:
                loop.remove_reader(self._reports)
        return self._ended()

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the process, unless it has ended."""
        if self.poll() is None:
            # Ignore a process that does not exist: its parent may learn of its end sooner than we
            # do.
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End the process as `kill -9` does."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask the process to end, by SIGTERM."""
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
    """The process from which warm processes are forked; `root` is the folder of its code."""

    def __init__(self, modules: tuple[str, ...], version: Version) -> None:
        self.root = version.root
        self._requests, theirs = socket.socketpair()
        # Held for each start, because tests start processes from several threads.
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
                # Give the parent no terminal, because its children have none either.
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                # Start a separate session, so that a Ctrl-C reaches the tests first.
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
        """Fork a process that runs a module, and return the process.

        Args:
            module: The module, which runs as by `python -m`.
            arguments: The arguments of the program.
            environment: All environment variables of the process.
            output: The file descriptor for standard output.
            errors: The file descriptor for standard error.
            text: The file descriptor for standard input; None for an empty input.
            directory: The current directory; by default the folder of the code.
            finds_here: Whether modules are also imported from the current directory; if not, the
                module runs as by `python -P -m`.
            new_session: Whether the process starts a new session.
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
        """Return when the process has imported all modules: its first child cannot start before."""
        with Path(os.devnull).open("w") as nothing:
            sink = nothing.fileno()
            # Run a module that does nothing.
            self.start("keyword", environment={}, output=sink, errors=sink).wait()

    def end(self) -> None:
        """End the process, and all children that still run."""
        self._requests.close()
        self._process.wait()


# The processes that all parents of this pytest process have forked.
_started: list[WarmProcess] = []


def running_warm() -> list[WarmProcess]:
    """Return the warm processes of this pytest process that still run."""
    return [each for each in _started if each.runs]


@cache
def warm(modules: tuple[str, ...] = SERVICE, version: Version = THIS) -> WarmParent:
    """Return the process that has imported `modules`, for all tests of this pytest process.

    The process is started at the first call.
    """
    parent = WarmParent(modules, version)
    atexit.register(parent.end)
    return parent


def run_command_line(
    *arguments: str, environment: Mapping[str, str], text: str | None, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run an `angelia` command to its end as `subprocess.run` does, with `text` as its input."""
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

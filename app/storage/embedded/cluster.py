"""A PostgreSQL data directory and its server. Callers must hold the locks of the home folder."""

import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

import psycopg

from app.domain.errors import StorageUnavailableError
from app.storage.embedded.programs import installed, let_through

CONNECTIONS_MAX: Final = 200
LOG_BYTES_MAX: Final = 10_000_000

# The maximum length of the socket's path. Linux allows 108 bytes and macOS 104, including a zero at
# the end.
_SOCKET_PATH_MAX: Final = 100
_SOCKET: Final = ".s.PGSQL.5432"
_CONNECT_TIMEOUT_S: Final = 2
_STATE_TIMEOUT_S: Final = 30.0
_LOOK_EVERY_S: Final = 0.05
_LOG_TAIL_LINES: Final = 5


class Cluster:
    """A PostgreSQL server with its data directory `data`, which the first start creates.

    Every call may raise StorageUnavailableError with PostgreSQL's error text, or OSError.
    """

    def __init__(self, data: Path) -> None:
        self.data = data
        self.pid_file = data / "postmaster.pid"
        self._install = installed(data)
        self.user = self._install.user
        self._sockets = self._socket_directory()
        self.url = f"postgresql://postgres@/postgres?host={quote(str(self._sockets), safe='')}"
        self.stop_command = (
            str(self._install.bin / "pg_ctl"),
            *("stop", "--silent", "--mode=fast", f"--timeout={_STATE_TIMEOUT_S:.0f}"),
            f"--pgdata={data}",
        )

    def answers(self) -> bool:
        """Return whether the server is running. Wait while the server is starting or stopping."""
        deadline = time.monotonic() + _STATE_TIMEOUT_S
        pause = threading.Event()
        while (state := self._state()) is None:
            if time.monotonic() > deadline:
                raise StorageUnavailableError(
                    f"PostgreSQL is neither up nor down for {_STATE_TIMEOUT_S:.0f} s ({self.data})"
                )
            pause.wait(_LOOK_EVERY_S)
        return state

    def has_process(self) -> bool:
        """Return whether there is a process of the server. It may be starting, or not answer."""
        try:
            first_line = next(iter(self.pid_file.read_text().splitlines()), "")
        except FileNotFoundError:
            return False
        return first_line.isdigit() and "postgres" in _command_line(int(first_line))

    def start(self) -> None:
        """Start the server, and return when it responds. The first time, create the database."""
        self._initialize()
        self._forget_dead_server()
        log = self._log_file()
        try:
            self._install.run(
                *("pg_ctl", "start", "--silent", f"--pgdata={self.data}", f"--log={log}"),
                f"--timeout={_STATE_TIMEOUT_S:.0f}",
                f"--options=-h '' -k '{self._sockets}' -c unix_socket_permissions=0700"
                f" -c max_connections={CONNECTIONS_MAX}",
            )
        except StorageUnavailableError as exc:
            raise StorageUnavailableError(f"{exc.message}; {_tail(log)}") from exc

    def stop(self) -> None:
        """Stop the server, and close its connections."""
        _, *arguments = self.stop_command
        self._install.run("pg_ctl", *arguments)
        if self._sockets != self.data:
            with suppress(OSError):
                self._sockets.rmdir()

    def _state(self) -> bool | None:
        """Return True if the server is up, False if down, None if it is starting or stopping."""
        try:
            psycopg.connect(self.url, connect_timeout=_CONNECT_TIMEOUT_S).close()
        except psycopg.OperationalError as exc:
            # A server that is starting or stopping sends "the database system is …". A dead server
            # sends nothing. The text is checked, because the error of a failed connection has no
            # code.
            return None if "the database system is" in str(exc) else False
        return True

    def _initialize(self) -> None:
        if (self.data / "PG_VERSION").exists():
            return
        # Create the directory under another name, and rename it when it is complete. So an
        # interrupted creation never looks like a database.
        new = self.data.with_name(f"{self.data.name}.new")
        shutil.rmtree(new, ignore_errors=True)
        self._make_private(new)
        let = ("--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C")
        self._install.run("initdb", f"--pgdata={new}", *let, "--no-instructions")
        new.replace(self.data)

    def _forget_dead_server(self) -> None:
        """Remove the file with the process id of a server that no longer runs.

        If another process has this process id now, PostgreSQL keeps the file and refuses to start.
        This is common after the restart of a container.
        """
        if not self.has_process():
            self.pid_file.unlink(missing_ok=True)

    def _socket_directory(self) -> Path:
        if len(os.fsencode(self.data / _SOCKET)) <= _SOCKET_PATH_MAX:
            return self.data
        digest = hashlib.sha256(os.fsencode(self.data)).hexdigest()[:16]
        directory = Path(tempfile.gettempdir()) / f"angelia-{digest}"
        if len(os.fsencode(directory / _SOCKET)) > _SOCKET_PATH_MAX:
            raise StorageUnavailableError(
                f"ANGELIA_HOME is too long a path for a socket ({self.data}), and so is that of the"
                " temporary folder: set one of ANGELIA_HOME and TMPDIR to a shorter path"
            )
        if not directory.exists():
            self._make_private(directory)
        found = directory.lstat()
        owner = os.geteuid() if self.user is None else self.user.uid
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner or found.st_mode & 0o077:
            raise StorageUnavailableError(f"{directory} is not a private directory of ours")
        return directory

    def _make_private(self, directory: Path) -> None:
        directory.mkdir(mode=0o700)
        if self.user is not None:
            os.chown(directory, self.user.uid, self.user.gid)
            let_through(directory)

    def _log_file(self) -> Path:
        log = self.data / "server.log"
        if log.exists() and log.stat().st_size > LOG_BYTES_MAX:
            log.replace(self.data / "server.log.old")
        return log


def _command_line(pid: int) -> str:
    process = Path("/proc") / str(pid)
    if process.parent.joinpath("self").exists():
        try:
            return (process / "cmdline").read_text(errors="replace")
        except OSError:
            return ""
    listed = subprocess.run(  # noqa: S603 - the only argument is a number
        ["ps", "-o", "command=", "-p", str(pid)],  # noqa: S607 - found by the system's path
        check=False,
        capture_output=True,
        text=True,
    )
    return listed.stdout


def _tail(log: Path) -> str:
    if not log.exists():
        return ""
    return "; ".join(log.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:])

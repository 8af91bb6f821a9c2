"""A real PostgreSQL for tests: one embedded server for a test run, and a database for each test."""

import atexit
import fcntl
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

import psutil
import psycopg
import pytest
from psycopg import sql

from app.storage.database import Database, open_database
from app.storage.embedded.cluster import Cluster
from app.storage.embedded.programs import let_through
from app.storage.embedded.server import embedded_postgres
from app.storage.migrate import upgrade
from tests.fakes.keys import VAULT
from tests.servers.runs import run_folder

_ROOT: Final = Path(__file__).resolve().parents[2]
TEMPLATE: Final = "angelia_template"
# The folder of the server's data, in the folder of the server.
_DATA: Final = "postgres"
_REPLICA: Final = "replica"
_END_TIMEOUT_S: Final = 10.0
_STRATEGIES_SINCE: Final = 15_00_00
_numbers = itertools.count(1)


def url_of(url: str, database: str) -> str:
    """Return the URL of another database on the same server."""
    return urlsplit(url)._replace(path=f"/{database}").geturl()


class PostgresServer:
    """A server of one test, which the test can stop, kill, freeze and start again.

    Inside a `with` block the server runs, and its database `postgres` at `url` is migrated. After
    the block the server and its data are removed.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.url = ""

    def __enter__(self) -> Self:
        self._home = self._stack.enter_context(_home())
        # Copy the data with its owner, who runs the server, and with its permissions.
        subprocess.run(["cp", "-a", _migrated() / _DATA, self._home], check=True)  # noqa: S607 - cp from PATH
        let_through(self._home / _DATA)
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.thaw()
        self._stack.close()

    def start(self) -> None:
        """Start the server, and return when it answers.

        After a stop, the server has its old data and its old URL.
        """
        self.url = self._stack.enter_context(embedded_postgres(self._home))

    def stop(self) -> None:
        """Stop the server, and close its connections."""
        self._cluster.stop()

    def kill(self) -> None:
        """End the server as a power cut would: it writes no data, and tells no client."""
        processes = self._processes()
        for process in processes:
            process.kill()
        psutil.wait_procs(processes, timeout=_END_TIMEOUT_S)

    def copy(self) -> None:
        """Make a copy of the data. The server stops meanwhile."""
        self.stop()
        subprocess.run(["cp", "-a", self._home / _DATA, self._home / _REPLICA], check=True)  # noqa: S607 - cp from PATH
        self.start()

    def fail_over(self) -> None:
        """Kill the server, and go on with the copy of its data: a replica that was behind.

        The new server has the old URL.
        """
        self.kill()
        shutil.rmtree(self._home / _DATA)
        (self._home / _REPLICA).rename(self._home / _DATA)
        self.start()

    def freeze(self) -> None:
        """Freeze the server: it accepts connections, and answers nothing."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let the server continue after `freeze`."""
        self._signal(signal.SIGCONT)

    def take_changes(self, *, yes: bool) -> None:
        """Make the server read-only, or with `yes` writable again, for open and new connections."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            value = sql.SQL("off" if yes else "on")
            name = sql.SQL("default_transaction_read_only")
            connection.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(name, value))
            connection.execute("SELECT pg_reload_conf()")

    @property
    def _cluster(self) -> Cluster:
        return Cluster(self._home / _DATA)

    def _signal(self, number: signal.Signals) -> None:
        for process in self._processes():
            process.send_signal(number)

    def _processes(self) -> list[psutil.Process]:
        pid_file = self._cluster.pid_file
        if not pid_file.exists():
            return []
        pid = int(pid_file.read_text().splitlines()[0])
        if not psutil.pid_exists(pid):
            return []
        postmaster = psutil.Process(pid)
        return [postmaster, *postmaster.children(recursive=True)]


@cache
def _migrated() -> Path:
    """Return the folder of a server that was stopped after its database `postgres` was migrated.

    To make the folder takes a second of CPU time, and to copy it a tenth of a second.
    """
    home = Path(tempfile.mkdtemp(prefix="angelia-postgres-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    with embedded_postgres(home) as url:
        upgrade(url)
    return home


@contextmanager
def _home() -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="angelia-postgres-"))
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def shared_server(home: Path, turns: Path) -> Iterator[str]:
    """Yield the URL of the test run's server: the first process starts it, the last removes it."""
    with turns.open("w") as turn, ExitStack() as entered:
        fcntl.flock(turn, fcntl.LOCK_EX)
        home.mkdir(mode=0o700, exist_ok=True)
        url = entered.enter_context(embedded_postgres(home))
        _make_template(url)
        fcntl.flock(turn, fcntl.LOCK_UN)
        try:
            yield url
        finally:
            fcntl.flock(turn, fcntl.LOCK_EX)
            entered.close()
            if not Cluster(home / _DATA).pid_file.exists():
                _keep_log_of_crash(home / _DATA / "server.log")
                shutil.rmtree(home, ignore_errors=True)


def _keep_log_of_crash(log: Path) -> None:
    """Copy the server's log to `build/` if a server process has crashed.

    Tests see only that their connections end. The log has the reason.
    """
    text = log.read_text(errors="replace")
    if "terminated by signal" in text or "PANIC" in text:
        kept = _ROOT / "build" / f"{log.parents[1].name}.log"
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(text)


def _make_template(url: str) -> None:
    """Create the migrated template database, unless it exists.

    Each test's database is a copy of it.
    """
    unfinished = f"{TEMPLATE}_new"
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute("SELECT FROM pg_database WHERE datname = %s", [TEMPLATE])
        if found.fetchone() is not None:
            return
        # Switch off `fsync`: the data need not survive the tests or a power cut.
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("SELECT pg_reload_conf()")
        begun = sql.Identifier(unfinished)
        # Drop the unfinished template of a process that was killed.
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(begun))
        connection.execute(sql.SQL("CREATE DATABASE {}").format(begun))
        upgrade(url_of(url, unfinished))
        made = sql.Identifier(TEMPLATE)
        connection.execute(sql.SQL("ALTER DATABASE {} RENAME TO {}").format(begun, made))


@pytest.fixture(scope="session")
def postgres_session_url(request: pytest.FixtureRequest) -> str:
    """Return the URL of the server on which tests get their databases.

    This is the embedded server, or the server whose fixture the parameter names.
    """
    if name := getattr(request, "param", None):
        return str(request.getfixturevalue(name).admin_url)
    return str(request.getfixturevalue("embedded_session_url"))


@pytest.fixture(scope="session")
def embedded_session_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the URL of this test run's embedded server, which has a migrated template database."""
    # Do not use the folder of the test run. If root runs the tests, the user of the server may not
    # read that folder.
    number = os.environ.get("PYTEST_XDIST_TESTRUNUID", uuid.uuid4().hex)[:12]
    home = Path(tempfile.gettempdir()) / f"angelia-postgres-{number}"
    with shared_server(home, run_folder(tmp_path_factory) / "postgres.turn") as url:
        yield url


@pytest.fixture(scope="session")
def postgres_connection(postgres_session_url: str) -> Iterator[psycopg.Connection]:
    """Yield a connection for all tests of this process: each test makes and drops a database."""
    with psycopg.connect(postgres_session_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def empty_postgres_url(
    postgres_session_url: str, postgres_connection: psycopg.Connection
) -> Iterator[str]:
    """Yield the URL of a database without tables. It is dropped after the test."""
    with new_database(postgres_connection, template="template1") as name:
        yield url_of(postgres_session_url, name)


@pytest.fixture
def postgres_url(
    postgres_session_url: str, postgres_connection: psycopg.Connection
) -> Iterator[str]:
    """Yield the URL of a new, migrated database. It is dropped after the test."""
    with new_database(postgres_connection, template=TEMPLATE) as name:
        yield url_of(postgres_session_url, name)


@pytest.fixture
async def database(postgres_url: str) -> AsyncIterator[Database]:
    """Yield the test's database, opened."""
    async with open_database(postgres_url, vault=VAULT) as opened:
        yield opened


@pytest.fixture
def postgres_server() -> Iterator[PostgresServer]:
    """Yield a server of this test alone, which the test may stop and start."""
    with PostgresServer() as server:
        yield server


@contextmanager
def database_on(server_url: str, *, template: str, owner: str) -> Iterator[str]:
    """Create a database from a template, with this owner, and yield its URL. Drop it afterwards."""
    with (
        psycopg.connect(server_url, autocommit=True) as connection,
        new_database(connection, template=template, owner=owner) as name,
    ):
        yield url_of(server_url, name)


@contextmanager
def new_database(
    connection: psycopg.Connection, *, template: str, owner: str | None = None
) -> Iterator[str]:
    """Create a database from a template, and yield its name. Drop it afterwards.

    By default its owner is the user of the connection.
    """
    name = f"test_{os.getpid()}_{next(_numbers)}"
    named = sql.Identifier(name)
    # Copy the template file by file. Through the write-ahead log it takes five times the CPU time,
    # but PostgreSQL 14 has no other way.
    copied = connection.info.server_version >= _STRATEGIES_SINCE
    connection.execute(
        sql.SQL("CREATE DATABASE {} TEMPLATE {} {} OWNER {}").format(
            named,
            sql.Identifier(template),
            sql.SQL("STRATEGY file_copy" if copied else ""),
            sql.SQL("DEFAULT") if owner is None else sql.Identifier(owner),
        )
    )
    try:
        yield name
    finally:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(named))

"""A PostgreSQL and a pgbouncer of Debian's packages, set up as companies do: TCP, TLS, passwords.

`python -m tests.servers.debian_postgres install`, run as root, installs both with apt-get. For
other users, or without apt-get, the command prints the line to run. If one of the two is missing,
the tests fail with that line: they are not skipped.
"""

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

import psycopg
import pytest
from psycopg import sql

from app.storage.migrate import upgrade
from tests.fakes.authority import Authority
from tests.servers.jars import MissingError
from tests.servers.ports import free_port
from tests.servers.postgres import TEMPLATE, database_on

INSTALL_PACKAGES: Final = (
    "apt-get update && apt-get install -y --no-install-recommends postgresql pgbouncer"
)
USER: Final = "angelia"
PASSWORD: Final = "s3cret/ours@home"
OURS: Final = f"{USER}:{quote(PASSWORD, safe='')}"
# The server's certificate is for this name, and not for 127.0.0.1.
HOST: Final = "localhost"
# Databases that clients reach only by TLS, and only with a certificate of the tests' authority.
TLS_ONLY: Final = "tls_only"
CERTIFIED: Final = "certified"
SYSTEM_USER: Final = "postgres"

_PLACES: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
_HBA: Final = f"""\
local all all trust
hostssl {CERTIFIED} all all scram-sha-256 clientcert=verify-full
hostnossl {TLS_ONLY} all all reject
host all {USER},reader,rotated all scram-sha-256
"""
_SETTINGS: Final = {
    "fsync": "off",
    "full_page_writes": "off",
    "listen_addresses": "127.0.0.1",
    "ssl": "on",
    "max_connections": "200",
}
_POOLER: Final = """\
[databases]
* = host=127.0.0.1 port={server} user={user} password='{password}'
[pgbouncer]
unix_socket_dir =
auth_type = any
admin_users = {user}
pool_mode = transaction
default_pool_size = 5
ignore_startup_parameters = extra_float_digits,{ignored}
"""
# Start pgbouncer as systemd does: it takes over a socket that listens already. So connections that
# come before pgbouncer is ready wait. The shell is bash, because Debian's sh accepts no file
# descriptor above 9.
_ON_SOCKET: Final = 'export LISTEN_FDS=1 LISTEN_PID=$$; exec 3<&{socket}; exec "$0" -q "$1"'


def install() -> tuple[Path, Path]:
    """Make sure that PostgreSQL and pgbouncer are installed, and return their paths.

    The first path is the folder with PostgreSQL's programs.

    Raises:
        MissingError: One of the two is missing; the message has the line that installs both.
    """
    if not all(_found()) and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["/bin/sh", "-c", INSTALL_PACKAGES], check=False)
    programs, pooler = _found()
    if programs is None or pooler is None:
        message = f"The tests need PostgreSQL and pgbouncer: {INSTALL_PACKAGES}"
        raise MissingError(message)
    return programs, Path(pooler)


def _found() -> tuple[Path | None, str | None]:
    programs = sorted(path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return (programs[-1] if programs else None), shutil.which("pgbouncer", path=_PLACES)


class DebianPostgres:
    """A PostgreSQL server with TLS, at `port`; `authority` has issued its certificate.

    The server runs Debian's programs, or those in the folder `programs` if it is given.
    """

    def __init__(self, folder: Path, programs: Path | None = None) -> None:
        self.folder = folder
        self.port = free_port()
        self.authority = Authority(folder)
        debians, self._pgbouncer = install()
        self.programs = programs or debians

    @property
    def admin_url(self) -> str:
        """The URL for the server's superuser, by the Unix socket."""
        return f"postgresql://{SYSTEM_USER}@/postgres?host={self.folder}&port={self.port}"

    def url(
        self, database: str, *, host: str = HOST, credentials: str = OURS, **parameters: str
    ) -> str:
        """Return the URL of a database by TCP; `parameters` are connection parameters of libpq."""
        query = f"?{urlencode(parameters)}" if parameters else ""
        return f"postgresql://{credentials}@{host}:{self.port}/{database}{query}"

    def verified(
        self, database: str, *, host: str = HOST, credentials: str = OURS, **others: str
    ) -> str:
        """Return a URL that accepts the server only with a certificate of the tests' authority."""
        given = {"sslmode": "verify-full", "sslrootcert": str(self.authority.ca_file)} | others
        return self.url(database, host=host, credentials=credentials, **given)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Create the server's data folder, and run the server inside the block."""
        data = self.folder / "data"
        user = f"--username={SYSTEM_USER}"
        self._run("initdb", "--no-sync", user, "--encoding=UTF8", "-A", "trust", "-D", data)
        chain, key = self.authority.files(self.folder, HOST)
        for path in (chain, key):
            path.chmod(0o600)
            shutil.chown(path, *_owner())
        settings = {"ssl_cert_file": chain, "ssl_key_file": key, **_SETTINGS}
        settings |= {"ssl_ca_file": self.authority.ca_file, "unix_socket_directories": self.folder}
        lines = [f"{name} = '{value}'\n" for name, value in settings.items()]
        (data / "postgresql.conf").write_text("".join(lines))
        (data / "pg_hba.conf").write_text(_HBA)
        self._run("pg_ctl", "start", "-w", "-D", data, "-o", f"-p {self.port}", "-l", data / "log")
        try:
            yield
        finally:
            self._run("pg_ctl", "stop", "-w", "-m", "immediate", "-D", data)

    @contextmanager
    def database(self) -> Iterator[str]:
        """Yield the name of a new, migrated database. The database is dropped after the block."""
        with database_on(self.admin_url, template=TEMPLATE, owner=USER) as url:
            yield urlsplit(url).path[1:]

    @contextmanager
    def pgbouncer(self, *, ignored: str = "") -> Iterator[int]:
        """Run a pgbouncer in front of the server, and yield its port.

        The pgbouncer is in transaction mode, and has no TLS. It ignores the connection parameter
        `ignored`, and refuses connections with other parameters that it does not know.
        """
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = int(listening.getsockname()[1])
            file = self.folder / f"pgbouncer-{port}.ini"
            file.write_text(
                _POOLER.format(server=self.port, user=USER, password=PASSWORD, ignored=ignored)
            )
            user, group = _owner()
            command = _ON_SOCKET.format(socket=listening.fileno())
            process = subprocess.Popen(
                ["/bin/bash", "-c", command, self._pgbouncer, file],
                stderr=subprocess.DEVNULL,
                pass_fds=(listening.fileno(),),
                user=user,
                group=group,
            )
            try:
                yield port
            finally:
                process.terminate()
                process.wait()

    def _run(self, program: str, *arguments: str | Path) -> None:
        command: Sequence[str | Path] = [self.programs / program, *arguments]
        user, group = _owner()
        # Collect the output in a file, and not by a pipe: the server would keep the pipe open.
        with (self.folder / "output").open("w+") as output:
            done = subprocess.run(
                command,
                check=False,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                user=user,
                group=group,
            )
            assert done.returncode == 0, (program, (self.folder / "output").read_text())


def command_pgbouncer(port: int, command: str) -> None:
    """Send a command to the console of the pgbouncer at `port`.

    The console accepts only simple queries, without parameters.
    """
    url = f"postgresql://{USER}@127.0.0.1:{port}/pgbouncer"
    with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor) as console:
        console.execute(command.encode())


def _owner() -> tuple[int, int]:
    """Return the user and group ids for PostgreSQL and pgbouncer, which do not run as root."""
    if os.geteuid():
        return os.geteuid(), os.getegid()
    found = pwd.getpwnam(SYSTEM_USER)
    return found.pw_uid, found.pw_gid


@pytest.fixture(scope="session")
def debian_postgres() -> Iterator[DebianPostgres]:
    """Run one server for the whole test session."""
    with running_server() as server:
        yield server


@contextmanager
def running_server(programs: Path | None = None) -> Iterator[DebianPostgres]:
    """Run a server that has a migrated template database, and yield the server.

    The server runs the programs in the folder `programs`, or Debian's if it is None.
    """
    with tempfile.TemporaryDirectory(prefix="angelia-debian-") as folder:
        shutil.chown(folder, *_owner())
        Path(folder).chmod(0o755)
        server = DebianPostgres(Path(folder), programs)
        with server.running():
            with psycopg.connect(server.admin_url, autocommit=True) as connection:
                for statement in _made():
                    connection.execute(statement)
            upgrade(server.url(TEMPLATE))
            yield server


def _made() -> Iterator[sql.Composed]:
    user, password = sql.Identifier(USER), sql.Literal(PASSWORD)
    yield sql.SQL("CREATE ROLE {} LOGIN CREATEDB PASSWORD {}").format(user, password)
    yield sql.SQL("CREATE ROLE reader LOGIN PASSWORD {}").format(password)
    for name in (TEMPLATE, TLS_ONLY, CERTIFIED):
        yield sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(name), user)


@pytest.fixture
def debian_database(debian_postgres: DebianPostgres) -> Iterator[str]:
    """Yield the name of a new, migrated database on Debian's server.

    It is dropped after the test.
    """
    with debian_postgres.database() as name:
        yield name


if __name__ == "__main__":
    if sys.argv[1:] != ["install"]:
        sys.exit("usage: python -m tests.servers.debian_postgres install")
    try:
        print(*install())  # noqa: T201 - this is a command
    except MissingError as error:
        sys.exit(str(error))

"""An embedded PostgreSQL, for installations that configure no database.

Every process that uses the server of a home folder holds a shared lock on `postgres.users`. The
kernel releases the lock when the process ends, even by kill -9. When no process holds the lock any
more, the process that ended last, or a guard process, gets an exclusive lock and stops the server.
A counter of processes would be wrong after kill -9, so there is none. Only one process at a time
starts the server, under the lock `postgres.start`. With `restart`, a process also starts the server
again when the server has ended, for example by kill -9.
"""

import fcntl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, Final

import structlog

from app.domain.errors import StorageUnavailableError
from app.storage.embedded.cluster import Cluster
from app.storage.embedded.home import usable_home

# How long to wait for a lock. Another process may be creating the database on a slow disk.
TURN_TIMEOUT_S: Final = 90.0
_LOOK_EVERY_S: Final = 0.05
# How often a process with `restart` checks whether the server still runs.
_CHECK_EVERY_S: Final = 1.0
_GUARD: Final = Path(__file__).with_name("guard.py")

_log = structlog.get_logger()


@contextmanager
def embedded_postgres(home: Path, *, restart: bool = False) -> Iterator[str]:
    """Yield the URL of the PostgreSQL under `home`, which is started if needed.

    With `restart`, a server that ends during the block is started again within a few seconds.

    Processes with the same home share one server, which stops when the last of them ends. Only the
    system user that runs the server can connect (by a Unix socket in a private directory).

    Raises:
        StorageUnavailableError: The directory or the server has a problem; the error names it.
    """
    with usable_home(home) as folder:
        users = _users(folder)
        with _locked(folder / "postgres.start", fcntl.LOCK_EX):
            ours = _taken(users, fcntl.LOCK_SH)
            try:
                cluster = Cluster(folder / "postgres")
                _ensure_running(cluster, folder)
            except BaseException:
                ours.close()
                raise
    try:
        with _restarted(cluster, folder) if restart else nullcontext():
            yield cluster.url
    finally:
        ours.close()
        _stop_if_unused(cluster, users)


@contextmanager
def _restarted(cluster: Cluster, folder: Path) -> Iterator[None]:
    over = threading.Event()
    arguments = (cluster, folder, over)
    thread = threading.Thread(target=_restart, args=arguments, name="embedded-postgres")
    thread.start()
    try:
        yield
    finally:
        # Wait for the thread, so that it does not start a server that nobody uses any more.
        over.set()
        thread.join()


def _restart(cluster: Cluster, folder: Path, over: threading.Event) -> None:
    while not over.wait(_CHECK_EVERY_S):
        try:
            if not cluster.has_process() and _start_unless_it_runs(cluster, folder):
                _log.warning("embedded_postgres_started_again", directory=str(cluster.data))
        except Exception as exc:  # noqa: BLE001 - try again after any error
            _log.error("embedded_postgres_not_started", exc_info=exc)


def _start_unless_it_runs(cluster: Cluster, folder: Path) -> bool:
    """Start the server, unless another process has started it meanwhile."""
    with _locked(folder / "postgres.start", fcntl.LOCK_EX):
        return _ensure_running(cluster, folder)


def _ensure_running(cluster: Cluster, folder: Path) -> bool:
    """Start the server if it does not run. Return whether it was started."""
    # Start the guard before the server. So there is never a server without a guard, even if this
    # process is killed.
    _ensure_guarded(cluster, folder)
    if cluster.answers():
        return False
    started = time.monotonic()
    cluster.start()
    seconds = round(time.monotonic() - started, 3)
    _log.info("embedded_postgres_started", directory=str(cluster.data), seconds=seconds)
    return True


def _ensure_guarded(cluster: Cluster, folder: Path) -> None:
    guard = folder / "postgres.guard"
    with guard.open("ab") as file:
        if not _had(file, fcntl.LOCK_SH):
            return
    user = "" if cluster.user is None else f"{cluster.user.uid}:{cluster.user.gid}"
    files = (str(guard), str(_users(folder)), str(cluster.pid_file))
    subprocess.run(  # noqa: S603 - the command is Angelia's own program
        [sys.executable, "-I", str(_GUARD), *files, user, *cluster.stop_command],
        check=True,
        cwd="/",
        start_new_session=True,  # Ctrl-C must not stop the server
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _users(folder: Path) -> Path:
    return folder / "postgres.users"


def _stop_if_unused(cluster: Cluster, users: Path) -> None:
    with users.open("rb") as file:
        if _had(file, fcntl.LOCK_EX) and cluster.pid_file.exists():
            cluster.stop()
            _log.info("embedded_postgres_stopped", directory=str(cluster.data))


@contextmanager
def _locked(path: Path, kind: int) -> Iterator[None]:
    with _taken(path, kind):
        yield


def _taken(path: Path, kind: int) -> IO[bytes]:
    """Open the file, wait at most TURN_TIMEOUT_S for a lock on it, and return the file.

    `kind` says whether the lock is shared or exclusive. Closing the file releases the lock.
    """
    file = path.open("ab")
    deadline = time.monotonic() + TURN_TIMEOUT_S
    pause = threading.Event()
    while not _had(file, kind):
        if time.monotonic() > deadline:
            file.close()
            raise StorageUnavailableError(
                f"Another process has been starting or stopping PostgreSQL for"
                f" {TURN_TIMEOUT_S:.0f} s ({path})"
            )
        pause.wait(_LOOK_EVERY_S)
    return file


def _had(file: IO[bytes], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

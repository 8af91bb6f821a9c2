import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote

import psutil
import psycopg
import pytest
from structlog.testing import capture_logs

from app.domain.errors import StorageUnavailableError
from app.storage.embedded.server import embedded_postgres

DEADLINE_S = 60.0

# Uses the home's server, says so, and ends when its input does.
USER = """
import sys
from pathlib import Path
from app.storage.embedded.server import embedded_postgres
with embedded_postgres(Path(sys.argv[1])) as url:
    sys.stdout.write(url + "\\n")
    sys.stdout.flush()
    sys.stdin.read()
"""


class User:
    """Another process that uses the server of a home."""

    def __init__(self, home: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", USER, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def url(self) -> str:
        assert self.process.stdout is not None
        lines = (line.strip() for line in self.process.stdout)
        return next(line for line in lines if line.startswith("postgresql://"))

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=DEADLINE_S)

    def leave(self) -> None:
        self.process.communicate(timeout=DEADLINE_S)


@pytest.fixture
def home() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="angelia-embedded-"))
    yield path
    wait_until(lambda: not (path / "postgres" / "postmaster.pid").exists())
    shutil.rmtree(path)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline
        pause.wait(0.02)


def write_pid_file(home: Path, pid: int) -> None:
    lines = [str(pid), str(home / "postgres"), "0", "5432", "", "", "", "ready"]
    (home / "postgres" / "postmaster.pid").write_text("\n".join(lines))


def guards(home: Path) -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter()
        if str(home / "postgres.guard") in _command_line(process)
    ]


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def server_pid(home: Path) -> int:
    return int((home / "postgres" / "postmaster.pid").read_text().splitlines()[0])


def answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def test_what_is_stored_is_there_at_the_next_start(home: Path) -> None:
    with embedded_postgres(home) as url, psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    assert not answers(url)
    with embedded_postgres(home) as again, psycopg.connect(again) as connection:
        assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)
    assert again == url


def test_processes_share_one_server_and_the_last_one_stops_it(home: Path) -> None:
    with embedded_postgres(home) as url:
        pid = server_pid(home)
        other = User(home)
        assert other.url() == url
        assert server_pid(home) == pid
    assert answers(url)
    other.leave()
    assert not answers(url)


def test_processes_that_start_at_once_share_one_server(home: Path) -> None:
    users = [User(home) for _ in range(4)]
    assert len({user.url() for user in users}) == 1
    for user in users[:3]:
        user.leave()
    assert answers(f"postgresql://postgres@/postgres?host={home / 'postgres'}")
    users[3].leave()


def test_a_killed_process_does_not_keep_the_server_from_stopping_with_the_last(home: Path) -> None:
    with embedded_postgres(home) as url:
        other = User(home)
        other.url()
        other.kill()
        assert answers(url)
    assert not answers(url)


def test_a_server_whose_only_user_was_killed_stops(home: Path) -> None:
    user = User(home)
    url = user.url()
    user.kill()
    wait_until(lambda: not answers(url))


def test_a_server_whose_user_was_killed_is_taken_over(home: Path) -> None:
    user = User(home)
    user.url()
    user.kill()
    with embedded_postgres(home) as url:
        assert answers(url)


def test_a_process_that_is_killed_while_it_starts_the_server_leaves_none_behind(
    home: Path,
) -> None:
    user = User(home)
    wait_until((home / "postgres" / "postmaster.pid").exists)
    user.kill()
    wait_until(lambda: not (home / "postgres" / "postmaster.pid").exists())
    wait_until(lambda: not guards(home))


def test_a_server_has_one_guard_also_after_it_was_lost(home: Path) -> None:
    with embedded_postgres(home):
        [guard] = guards(home)
        guard.kill()
        guard.wait(DEADLINE_S)
        with embedded_postgres(home):
            assert len(guards(home)) == 1
            with embedded_postgres(home):
                assert len(guards(home)) == 1
    wait_until(lambda: not guards(home))


def test_a_crashed_server_is_started_again_although_another_process_has_its_number(
    home: Path,
) -> None:
    with embedded_postgres(home):
        pass
    owner = (home / "postgres").stat()
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, user=owner.st_uid) as other:
        write_pid_file(home, other.pid)
        with embedded_postgres(home) as url:
            assert answers(url)


def test_a_server_that_is_killed_is_started_again_while_it_is_used(home: Path) -> None:
    with embedded_postgres(home, restart=True) as url:
        psutil.Process(server_pid(home)).kill()
        wait_until(lambda: not answers(url))
        wait_until(lambda: answers(url))
    assert not answers(url)


def test_a_server_that_cannot_be_started_again_is_tried_until_it_can(home: Path) -> None:
    with embedded_postgres(home, restart=True) as url, capture_logs() as logs:
        away = (home / "postgres" / "postgresql.conf").rename(home / "away")
        psutil.Process(server_pid(home)).kill()
        wait_until(lambda: any(each["event"] == "embedded_postgres_not_started" for each in logs))
        away.rename(home / "postgres" / "postgresql.conf")
        wait_until(lambda: answers(url))


def test_a_creation_that_was_interrupted_is_begun_again(home: Path) -> None:
    (home / "postgres.new").mkdir()
    (home / "postgres.new" / "PG_VERSION").write_text("18\n")
    with embedded_postgres(home) as url:
        assert answers(url)


def test_a_home_with_a_long_path_works(home: Path) -> None:
    long = home / ("directory" * 12)
    with embedded_postgres(long) as url:
        assert answers(url)
        sockets = Path(unquote(url.partition("host=")[2]))
        assert sockets.stat().st_mode & 0o077 == 0
    assert not sockets.exists()


def test_nobody_else_can_reach_the_server(home: Path) -> None:
    with embedded_postgres(home):
        assert (home / "postgres").stat().st_mode & 0o077 == 0
        server = psutil.Process(server_pid(home))
        assert server.net_connections("inet") == []


def test_a_home_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "file"
    home.write_text("")
    with pytest.raises(StorageUnavailableError, match="ANGELIA_HOME"), embedded_postgres(home):
        pass


def test_a_database_of_another_version_is_refused_with_a_way_out(home: Path) -> None:
    (home / "postgres").mkdir()
    (home / "postgres" / "PG_VERSION").write_text("9\n")
    with pytest.raises(StorageUnavailableError, match="pg_dump"), embedded_postgres(home):
        pass


def test_an_error_of_the_user_of_the_server_is_passed_on_as_it_is(home: Path) -> None:
    with pytest.raises(FileNotFoundError), embedded_postgres(home):
        Path("/nowhere").read_text(encoding="utf-8")

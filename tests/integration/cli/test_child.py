import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from app.cli.commands.up.child import STOP_MAX, Child
from app.cli.commands.up.restart import RestartPolicy
from app.cli.errors import CliError
from workers.assignment.supervisor import LAST_COMMIT_TIMEOUT, LAST_REQUEST_TIMEOUT
from workers.main import LAST_TRACES_MAX

PATIENCE_S = 60
AT_ONCE = RestartPolicy(delay=timedelta(), delay_max=timedelta())
SAYS_ITS_PID = "import os, sys, time; print(os.getpid(), file=open(sys.argv[1], 'a')); "

SUPERVISOR = """
import asyncio, os, sys
from app.cli.errors import CliError
from app.cli.commands.up.child import STOP_MAX, Child
asyncio.run(Child("x", sys.argv[1:], environment=dict(os.environ), notify=print).run())
"""


class Notices:
    """What the supervisor said, and a way to wait for it."""

    def __init__(self) -> None:
        self.lines: asyncio.Queue[str] = asyncio.Queue()

    def __call__(self, line: str) -> None:
        self.lines.put_nowait(line)

    async def next(self) -> str:
        async with asyncio.timeout(PATIENCE_S):
            return await self.lines.get()


@asynccontextmanager
async def running(child: Child) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(child.run())
        yield
        task.cancel()


def a_child(program: str, pipe: Path, notices: Notices) -> Child:
    return Child(
        "worker",
        [sys.executable, "-c", SAYS_ITS_PID + program, str(pipe)],
        environment=dict(os.environ),
        notify=notices,
        policy=AT_ONCE,
    )


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pids"
    os.mkfifo(path)
    return path


async def next_pid(pipe: Path) -> int:
    # Opening waits for the child to open its end, reading for what it writes.
    async with asyncio.timeout(PATIENCE_S):
        return int(await asyncio.to_thread(pipe.read_text))


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_child_that_exits_is_reported_and_started_again(pipe: Path) -> None:
    notices = Notices()
    async with running(a_child("sys.exit(3)", pipe, notices)):
        first = await next_pid(pipe)
        assert await notices.next() == "The worker ended (exit code 3); starting it in 0 s."
        assert await next_pid(pipe) != first


async def test_a_child_that_is_killed_is_started_again(pipe: Path) -> None:
    notices = Notices()
    async with running(a_child("time.sleep(60)", pipe, notices)):
        os.kill(await next_pid(pipe), signal.SIGKILL)
        assert "signal 9" in await notices.next()
        assert is_alive(await next_pid(pipe))


async def test_a_child_is_stopped_with_its_supervision(pipe: Path) -> None:
    notices = Notices()
    async with running(a_child("time.sleep(60)", pipe, notices)):
        pid = await next_pid(pipe)
    assert not is_alive(pid)
    assert notices.lines.empty()


async def test_a_child_that_will_not_stop_is_killed_at_a_second_request(pipe: Path) -> None:
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    child = Child(
        "worker",
        [sys.executable, "-c", deaf + SAYS_ITS_PID + "time.sleep(60)", str(pipe)],
        environment=dict(os.environ),
        notify=Notices(),
        policy=AT_ONCE,
    )
    async with asyncio.TaskGroup() as group:
        task = group.create_task(child.run())
        pid = await next_pid(pipe)
        task.cancel()
        # Once it waits for the child to stop, the next request is the second.
        group.create_task(asyncio.to_thread(lambda: None)).add_done_callback(
            lambda _: task.cancel()
        )
    assert not is_alive(pid)


def test_a_worker_has_the_time_that_it_takes_to_stop() -> None:
    assert STOP_MAX > LAST_REQUEST_TIMEOUT + LAST_COMMIT_TIMEOUT + LAST_TRACES_MAX


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels do not tell children")
async def test_a_child_stops_when_its_supervisor_is_killed_outright(pipe: Path) -> None:
    program = "held = open(sys.argv[1], 'a'); print(os.getpid(), file=held, flush=True)"
    child = [sys.executable, "-c", f"import os, sys, time; {program}; time.sleep(60)", str(pipe)]
    supervisor = await asyncio.create_subprocess_exec(sys.executable, "-c", SUPERVISOR, *child)
    lines = await asyncio.to_thread(pipe.open)
    with lines:
        pid = int(await asyncio.to_thread(lines.readline))
        supervisor.kill()
        await supervisor.wait()
        async with asyncio.timeout(PATIENCE_S):
            # The child has the pipe open for as long as it lives.
            assert await asyncio.to_thread(lines.read) == ""
    assert pid != supervisor.pid


async def test_a_child_that_keeps_dying_is_given_up_with_its_last_words() -> None:
    policy = RestartPolicy(delay=timedelta(), delay_max=timedelta(), deaths_max=3)
    notices = Notices()
    child = Child(
        "worker 2",
        [sys.executable, "-c", "raise SystemExit(5)"],
        environment=dict(os.environ),
        notify=notices,
        policy=policy,
    )
    with pytest.raises(CliError, match=r"worker 2 ended 3 times in a row.*exit code 5"):
        await child.run()
    assert notices.lines.qsize() == 2

"""What a process makes of signals while it stops."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

WORKER = """
import asyncio, sys
from workers.lifecycle import stop_signals

async def run():
    async with stop_signals() as stopping:
        print("started", flush=True)
        await stopping.wait()
        print("stopping", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        print("committed", flush=True)

asyncio.run(run())
"""
SUPERVISOR = """
import asyncio, sys
from app.cli.interrupt import run_until_signalled

async def work():
    print("started", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        print("stopping", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        print("committed", flush=True)

run_until_signalled(work())
"""


@contextmanager
def stopping(program: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has been told to stop, and does when it reads a line."""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "started\n"
            process.send_signal(signal.SIGTERM)
            assert process.stdout.readline() == "stopping\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("program", [WORKER, SUPERVISOR], ids=["worker", "supervisor"])
def test_a_second_sigterm_leaves_a_process_the_time_to_commit(program: str) -> None:
    with stopping(program) as process:
        process.send_signal(signal.SIGTERM)
        assert process.communicate("go on\n", timeout=60)[0] == "committed\n"

"""A process of the service that is restarted whenever it ends."""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

from app.cli.commands.up.restart import RestartPolicy, Restarts
from app.cli.errors import CliError

# The maximum time for a process to stop. A worker needs less time than this to end its requests, to
# commit, and to write traces.
STOP_MAX: Final = timedelta(seconds=30)

_TIED: Final = Path(__file__).with_name("tied.py")


class Child:
    """A command that runs until `run` is cancelled. Whenever the command ends, it is started again.

    `notify` is called with a line for the user each time the command has ended by itself.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        notify: Callable[[str], None],
        policy: RestartPolicy | None = None,
    ) -> None:
        self.name = name
        self._command = command
        self._environment = environment
        self._notify = notify
        self._policy = policy or RestartPolicy()

    async def run(self) -> None:
        """Keep the command running until cancelled. Then stop it, and return when it has ended.

        The command is stopped with SIGTERM. If it has not ended after `STOP_MAX`, or if `run` is
        cancelled a second time, it gets SIGKILL.

        Raises:
            CliError: The command ended too many times, one after another, and is not restarted.
        """
        restarts = Restarts(self._policy)
        while True:
            started = time.monotonic()
            status = await self._run_once()
            restarts = restarts.died(uptime=timedelta(seconds=time.monotonic() - started))
            if restarts.are_over:
                times = f"{restarts.deaths} times in a row, the last time with {_ending(status)}"
                raise CliError(f"The {self.name} ended {times}.", hint="Its log says why.")
            seconds = restarts.delay.total_seconds()
            self._notify(
                f"The {self.name} ended ({_ending(status)}); starting it in {seconds:g} s."
            )
            await asyncio.sleep(seconds)

    async def _run_once(self) -> int:
        # The command runs in a separate session. So Ctrl-C reaches only this process, which then
        # stops its child processes in order.
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            str(_TIED),
            str(os.getpid()),
            *self._command,
            env=self._environment,
            stdin=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return await process.wait()
        finally:
            await _stop(process)


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    try:
        with suppress(ProcessLookupError):
            process.terminate()
        await asyncio.wait_for(process.wait(), STOP_MAX.total_seconds())
    except TimeoutError:
        pass
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _ending(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"exit code {status}"

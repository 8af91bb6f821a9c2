"""`angelia worker --processes N`: several worker processes on this machine, kept running."""

import asyncio
from datetime import timedelta
from typing import Final

from rich.text import Text

from app.cli import output
from app.cli.commands.up.child import Child
from app.cli.commands.up.restart import RestartPolicy
from app.cli.python import python_command, python_environment
from app.config import Settings
from app.storage.embedded.home import require_usable

PROCESSES_MAX: Final = 256
# A worker that ends again and again is restarted for half a minute. Then the command ends with an
# error, so that the user learns of the problem.
_POLICY: Final = RestartPolicy(delay_max=timedelta(seconds=8), deaths_max=7)


async def keep_running(count: int, settings: Settings) -> None:
    """Run `count` workers until cancelled. Then stop all of them, and return when they have ended.

    The log divides the partitions among the workers, as it does with workers on other machines. A
    worker that ends is restarted, after a longer pause each time.

    Raises:
        CliError: One worker has ended too often. The other workers are stopped.
    """
    if settings.embedded_database:
        # The home folder is checked once, before any worker starts. Otherwise each worker would
        # report the same problem again and again.
        require_usable(settings.home)
    environment = python_environment(settings)
    workers = [
        Child(
            f"worker {number}",
            python_command("workers", str(number)),
            environment=environment,
            notify=_notify,
            policy=_POLICY,
        )
        for number in range(1, count + 1)
    ]
    async with asyncio.TaskGroup() as group:
        for each in workers:
            group.create_task(each.run(), name=each.name)


def _notify(line: str) -> None:
    output.err.print(Text(output.printable(line)))

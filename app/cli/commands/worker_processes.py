"""`angelia worker --processes N`: worker processes on this machine, kept running together."""

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
# Half a minute of trying: whoever runs us is to know that it does not work.
_POLICY: Final = RestartPolicy(delay_max=timedelta(seconds=8), deaths_max=7)


async def keep_running(count: int, settings: Settings) -> None:
    """Run `count` workers until cancelled; then all are stopped, and at an end on return.

    Each is a member of its own in the groups of the log. One that ends is started again, later each
    time; when it keeps ending, the others are stopped and CliError says so.
    """
    if settings.embedded_database:
        # They would each say so, time after time.
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

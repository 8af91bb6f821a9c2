"""`angelia api | worker`: one process each, for a service manager."""

from enum import StrEnum
from typing import Annotated

import typer

from app.cli.commands.worker_processes import PROCESSES_MAX, keep_running
from app.cli.interrupt import run_until_signalled
from app.cli.replacement import become
from app.cli.settings import settings_with


class ApiPart(StrEnum):
    """The parts into which the API can be split."""

    PUBLISH = "publish"
    MANAGEMENT = "management"


def api(
    *,
    only: Annotated[
        ApiPart | None, typer.Option(help="Serve only this part; default: all.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on [127.0.0.1].")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port to listen on [8090].")
    ] = None,
) -> None:
    """Run one API process: management, publishing, status."""
    become("app", settings_with(only=only, host=host, port=port))


def worker(
    *,
    processes: Annotated[
        int, typer.Option(min=1, max=PROCESSES_MAX, help="Run so many; one uses one core.")
    ] = 1,
) -> None:
    """Run one or several workers, which deliver messages.

    An embedded database is migrated first.
    """
    settings = settings_with()
    if processes == 1:
        become("workers", settings)
    run_until_signalled(keep_running(processes, settings))

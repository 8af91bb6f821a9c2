"""`angelia …`: the commands, and how each ends."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Final

import typer

from app.cli import output
from app.cli.check import check
from app.cli.credentials import give_api_key
from app.cli.demo.command import demo
from app.cli.errors import CliError
from app.cli.keys import keys
from app.cli.listen import listen
from app.cli.messages import publish, undelivered
from app.cli.processes import api, migrate, worker
from app.cli.secrets import secrets
from app.cli.spark import spark
from app.cli.subscriptions import subscriptions
from app.cli.topics import topics
from app.cli.trace import trace
from app.cli.up.command import up
from app.domain.errors import AngeliaError
from app.telemetry import configure_logging

_USE: Final = "Use it"
_PANELS: Final[Mapping[str, Sequence[Callable[..., None]]]] = {
    "Run it": (up, api, worker, spark, migrate, check),
    "See it work": (listen, demo),
    _USE: (publish, undelivered, trace),
}

app = typer.Typer(
    name="angelia",
    help="HTTP push delivery: every subscriber of a topic gets every message by POST.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _panel, _commands in _PANELS.items():
    for _command in _commands:
        app.command(rich_help_panel=_panel)(_command)
app.add_typer(topics, name="topic", rich_help_panel=_USE)
app.add_typer(subscriptions, name="subscription", rich_help_panel=_USE)
app.add_typer(keys, name="keys", rich_help_panel="Run it")
app.add_typer(secrets, name="secrets", rich_help_panel="Run it")


@app.callback()
def every_command(
    *,
    api_key: Annotated[
        str | None,
        typer.Option(help="API key to send; default: ANGELIA_API_KEY, which others cannot see."),
    ] = None,
) -> None:
    """HTTP push delivery: every subscriber of a topic gets every message by POST."""
    if api_key:
        give_api_key(api_key)


def run() -> None:
    """Run the command of this process: exit code 0, 1 when it failed, 2 when it was misused."""
    # What our own parts log here stands between what the command itself has to say.
    configure_logging("warning")
    try:
        app()
    except* (CliError, AngeliaError) as group:
        for error in _leaves(group):
            output.write_error(error)
        sys.exit(1)
    except* BrokenPipeError:
        # Whoever read our output has gone: nothing is left to say, at exit neither.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _leaves(group: BaseExceptionGroup[CliError | AngeliaError]) -> Iterator[CliError]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(each)
        else:
            yield each if isinstance(each, CliError) else CliError(each.message)


if __name__ == "__main__":
    run()

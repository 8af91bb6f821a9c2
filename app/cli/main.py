"""`angelia …`: the commands, and how each ends."""

import os
import sys
from typing import Annotated, Final

import typer

from app import native
from app.cli import output
from app.cli.environment import give_api_key
from app.cli.errors import CliError, Exit, leaves
from app.cli.lazy_commands import Entry, commands
from app.domain.errors import AngeliaError, NotFoundError

_RUN: Final = "Run it"
_SEE: Final = "See it work"
_USE: Final = "Use it"

# The commands with their help texts. With these texts, the help can list all commands without
# importing them. A test compares the texts with those of the commands.
COMMANDS: Final = (
    Entry(
        name="up",
        target="app.cli.commands.up.command:up",
        panel=_RUN,
        help="Run all of Angelia on this machine.",
    ),
    Entry(
        name="api",
        target="app.cli.commands.processes:api",
        panel=_RUN,
        help="Run one API process: management, publishing, status.",
    ),
    Entry(
        name="worker",
        target="app.cli.commands.processes:worker",
        panel=_RUN,
        help="Run one or several workers, which deliver messages.",
    ),
    Entry(
        name="spark",
        target="app.cli.commands.spark:spark",
        panel=_RUN,
        help="Run one Spark runner, which does the requested jobs.",
    ),
    Entry(
        name="migrate",
        target="app.cli.commands.migrate:migrate",
        panel=_RUN,
        help="Bring the database to this version's schema, unless it has this schema or a newer"
        " one.",
    ),
    Entry(
        name="check",
        target="app.cli.commands.check:check",
        panel=_RUN,
        help="Print every setting with its source, and whether each part responds.",
    ),
    Entry(
        name="keys",
        target="app.cli.commands.keys:keys",
        panel=_RUN,
        help="API keys: create, list, revoke. Without a key of your own, straight in the database.",
    ),
    Entry(
        name="secrets",
        target="app.cli.commands.secrets:secrets",
        panel=_RUN,
        help="The keys of stored secrets: make, change.",
    ),
    Entry(
        name="listen",
        target="app.cli.commands.listen:listen",
        panel=_SEE,
        help="Subscribe a local receiver to a topic and print every message that arrives.",
    ),
    Entry(
        name="top",
        target="app.cli.commands.top:top",
        panel=_SEE,
        help="Show subscriptions: rate, lag, errors, undelivered messages; until Ctrl-C.",
    ),
    Entry(
        name="alerts",
        target="app.cli.commands.alerts:alerts",
        panel=_SEE,
        help="List what is wrong with subscriptions, newest first.",
    ),
    Entry(
        name="demo",
        target="app.cli.commands.demo.command:demo",
        panel=_SEE,
        help="Publish events to a healthy, a flaky and a broken subscriber, and account"
        " for each event.",
    ),
    Entry(
        name="publish",
        target="app.cli.commands.publish:publish",
        panel=_USE,
        help="Publish a message, and print its id.",
    ),
    Entry(
        name="topic",
        target="app.cli.commands.topics:topics",
        panel=_USE,
        help="Topics: list, create, adopt, show, change, delete; their schemas.",
    ),
    Entry(
        name="subscription",
        target="app.cli.commands.subscriptions:subscriptions",
        panel=_USE,
        help="Subscriptions: list, create, show, change, suspend, ping, forecast, delete and more.",
    ),
    Entry(
        name="group",
        target="app.cli.commands.groups:groups",
        panel=_USE,
        help="Groups of topics: list, create, delete.",
    ),
    Entry(
        name="messages",
        target="app.cli.commands.messages:messages",
        panel=_USE,
        help="Find messages in a topic's log, by key or by their content; default: in the last"
        " hour.",
    ),
    Entry(
        name="trace",
        target="app.cli.commands.trace:trace",
        panel=_USE,
        help="Show what happened to a message, oldest first.",
    ),
    Entry(
        name="undelivered",
        target="app.cli.commands.messages:undelivered",
        panel=_USE,
        help="List discarded messages, newest first; `angelia retransmit` sends them again.",
    ),
    Entry(
        name="retransmit",
        target="app.cli.commands.retransmit:retransmit",
        panel=_USE,
        help="Send all messages since a time again, by moving the subscription; or --only"
        " some messages.",
    ),
    Entry(
        name="retransmission",
        target="app.cli.commands.retransmissions:retransmissions",
        panel=_USE,
        help="Retransmissions beside live traffic: list, show, wait for, cancel.",
    ),
    Entry(
        name="ledger",
        target="app.cli.commands.ledgers:ledger",
        panel=_USE,
        help="Completeness ledgers: show what became of messages, report, check, verify.",
    ),
    Entry(
        name="analytics",
        target="app.cli.commands.analytics:analytics",
        panel=_USE,
        help="Reports of what Spark found: undelivered messages, failures, latency, SLOs.",
    ),
    Entry(
        name="simulate",
        target="app.cli.commands.simulate:simulate",
        panel=_USE,
        help="Let Spark try other filters or another rate on published messages; default: the last"
        " day.",
    ),
    Entry(
        name="jobs",
        target="app.cli.commands.jobs:jobs",
        panel=_USE,
        help="Jobs for Spark: list, request, show, wait for, cancel.",
    ),
    Entry(
        name="call",
        target="app.cli.commands.call:call",
        panel=_USE,
        help="Make any call of the API, and print its response.",
    ),
    Entry(
        name="audit",
        target="app.cli.commands.audit:audit",
        panel=_USE,
        help="List who has changed what, newest first.",
    ),
)

app = typer.Typer(
    name="angelia",
    cls=commands(COMMANDS),
    help="HTTP push delivery: every subscriber of a topic gets every message by POST.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _write_version(wanted: bool) -> None:  # noqa: FBT001 - typer passes it by position
    if not wanted:
        return
    from importlib.metadata import version  # noqa: PLC0415 - other commands do not need it

    how = " (compiled)" if native.is_compiled() else ""
    output.write_text(f"angelia {version('angelia')}{how}")
    raise typer.Exit


@app.callback()
def every_command(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_write_version, is_eager=True
        ),
    ] = False,
    api_key: Annotated[
        str | None,
        typer.Option(help="API key to send; default: ANGELIA_API_KEY, which others cannot see."),
    ] = None,
) -> None:
    """HTTP push delivery: every subscriber of a topic gets every message by POST.

    Exit codes: 0 done, 1 failed, 2 misused, 3 no API answers, 4 no such thing, 5 not allowed.
    """
    if api_key:
        give_api_key(api_key)


def run() -> None:
    """Run the command that the user typed, and exit with its exit code (see `Exit`)."""
    try:
        app(prog_name="angelia")
    except* (CliError, AngeliaError) as group:
        errors = [_cli_error(each) for each in leaves(group)]
        for error in errors:
            output.write_error(error)
        sys.exit(errors[0].exit_code)
    except* BrokenPipeError:
        # The program that read the output has ended, so writing to it would fail. The output is
        # replaced, because Python also writes when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _cli_error(error: CliError | AngeliaError) -> CliError:
    if isinstance(error, CliError):
        return error
    exit_code = Exit.NOT_FOUND if isinstance(error, NotFoundError) else Exit.FAILED
    return CliError(error.message, exit_code=exit_code)


if __name__ == "__main__":
    run()

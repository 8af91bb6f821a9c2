"""`angelia up`."""

import asyncio
import shutil
import sys
from contextlib import nullcontext
from typing import Annotated

import typer
from rich.markup import escape
from rich.text import Text

from app.cli import output
from app.cli.commands.spark import missing_for_spark
from app.cli.commands.up.lock import only_one
from app.cli.commands.up.port import free_port
from app.cli.commands.up.service import service
from app.cli.interrupt import run_until_signalled
from app.cli.quiet import quiet_logs
from app.cli.settings import api_url, changed, settings_with
from app.config import Settings


def up(
    *,
    host: Annotated[str | None, typer.Option(help="Address to listen on [127.0.0.1].")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port to listen on [8090]; 0: any.")
    ] = None,
) -> None:
    """Run all of Angelia on this machine.

    Database and log are embedded if they are not configured.
    """
    quiet_logs()
    run_until_signalled(_up(settings_with(host=host, port=port)))


async def _up(wanted: Settings) -> None:
    home = only_one(wanted.home, api_url(wanted)) if wanted.embedded_database else nullcontext()
    with home:
        settings = changed(wanted, port=free_port(wanted.host, wanted.port))
        output.err.print("Starting Angelia …")
        with_spark = not any(missing_for_spark())
        async with service(settings, _notify, with_spark=with_spark):
            await _until_ready(settings)
            output.out.print(_screen(settings, with_spark=with_spark))
            # The service runs until the user stops the command.
            await asyncio.Event().wait()


async def _until_ready(settings: Settings) -> None:
    # This pause lets the child processes start before the imports below. The imports take some
    # time, so both happen at the same time.
    await asyncio.sleep(0)
    from app.cli.async_client import connected_async  # noqa: PLC0415 - imported while the processes start
    from app.cli.commands.up.readiness import until_ready  # noqa: PLC0415 - imported while the processes start

    async with connected_async(api_url(settings)) as client:
        await until_ready(client, _notify)


def _notify(line: str) -> None:
    output.err.print(Text(output.printable(line)))


def _screen(settings: Settings, *, with_spark: bool) -> str:
    url = api_url(settings)
    # If an option changed the API's address, the printed commands contain the address. Other
    # commands read only the settings, and would not find the API without it.
    api_option = "" if url == api_url(settings_with()) else f" --api {url}"
    angelia = escape(_angelia())
    key = ' -H "Authorization: Bearer $ANGELIA_API_KEY"' if settings.access_controlled else ""
    return f"""
[bold green]Angelia is ready[/] at [bold]{escape(url)}[/]

  Console     {url}/console
  Data        {escape(_database(settings))}
  Message log {escape(_log(settings))}
  Spark jobs  {_spark(with_spark=with_spark)}
  Callers     {_callers(settings)}

[bold]A first message[/], from another terminal:

  {angelia} listen --topic shop.orders{api_option}

  curl -i{key} {url}/topics/shop.orders -d '{{"order": 1, "item": "coffee"}}'

[bold]Without a listener of ours[/], by REST:

  curl{key} {url}/topics -H 'Content-Type: application/json' -d '{{"name": "shop.orders"}}'
  curl{key} {url}/topics/shop.orders/subscriptions -H 'Content-Type: application/json' \\
    -d '{{"name": "billing", "endpoint": "http://127.0.0.1:9000/orders", "supportTeam": "me"}}'

[bold]Next[/]: {angelia} demo, {angelia} check, {angelia} --help.
Ctrl-C stops the service; the data stays.
"""


def _angelia() -> str:
    """Return the command `angelia` for users to type.

    If the shell would not find `angelia`, the result is the path of the command.
    """
    return "angelia" if shutil.which("angelia") else sys.argv[0]


def _database(settings: Settings) -> str:
    if settings.embedded_database:
        return f"{settings.home.resolve()} (embedded PostgreSQL)"
    return "the PostgreSQL of ANGELIA_DATABASE_URL"


def _log(settings: Settings) -> str:
    if settings.embedded_log:
        return "in the same PostgreSQL (embedded)"
    return f"Kafka at {settings.kafka_bootstrap}"


def _callers(settings: Settings) -> str:
    if settings.access_controlled:
        return "need an API key, in ANGELIA_API_KEY: [bold]angelia keys[/] makes one"
    return "may do everything: ANGELIA_AUTH=keys asks them for API keys"


def _spark(*, with_spark: bool) -> str:
    if with_spark:
        return "done here when they are asked for"
    return "not done here: [bold]angelia spark[/] says what is missing"

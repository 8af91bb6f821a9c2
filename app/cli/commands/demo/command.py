"""`angelia demo`: publishes events, and accounts for every one of them."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from angelia_client import AsyncAngelia
from app.cli import output
from app.cli.async_client import connected_async, readiness
from app.cli.commands.demo.demonstration import Demonstration
from app.cli.commands.demo.show import show_accounts
from app.cli.commands.up.port import free_port
from app.cli.commands.up.readiness import until_ready
from app.cli.commands.up.service import service
from app.cli.environment import address
from app.cli.errors import CliError
from app.cli.interrupt import run_until_signalled
from app.cli.options import ApiOption
from app.cli.quiet import quiet_logs
from app.cli.settings import api_url, changed, settings_with
from app.config import Settings

_MESSAGES_MAX: Final = 20_000
_START_MAX_S: Final = 60.0


def demo(
    *,
    messages: Annotated[
        int, typer.Option(min=1, max=_MESSAGES_MAX, help="How many messages to publish.")
    ] = 1000,
    api: ApiOption = None,
    host: Annotated[
        str, typer.Option(help="Address of this machine, as the workers reach it.")
    ] = "127.0.0.1",
) -> None:
    """Publish events to a healthy, a flaky and a broken subscriber, and account for each event.

    Uses a running API, or starts a service of its own for the demo. Exits with 0 only if every
    message was delivered, or discarded and can be read again.
    """
    quiet_logs()
    if not run_until_signalled(_demo(messages, api=api, host=host)):
        raise CliError("Stopped before the end.")


async def _demo(messages: int, *, api: str | None, host: str) -> None:
    async with _service(api) as url, connected_async(url) as client:
        accounts = await Demonstration(client, messages).run(host)
    show_accounts(accounts)
    if any(each.problems for each in accounts):
        raise CliError("Not every message is accounted for.")
    output.write_text("Every message is accounted for.")


@asynccontextmanager
async def _service(api: str | None) -> AsyncIterator[str]:
    """Yield the URL of a service: a running one, or one that is started and runs in the block.

    If the user gave an address, only the service at this address is used.
    """
    url = address(api)
    ready, words = await readiness(url)
    if ready:
        yield url
    elif api:
        raise CliError(
            f"No API is ready at {url} ({words})",
            hint="Without --api the demo starts a service of its own.",
        )
    else:
        output.write_text(f"No service is ready at {url}: starting one for the demonstration.")
        async with _own_service() as own:
            yield own


@asynccontextmanager
async def _own_service() -> AsyncIterator[str]:
    with tempfile.TemporaryDirectory(prefix="angelia-demo-", ignore_cleanup_errors=True) as home:
        settings = _own_settings(Path(home))
        url = api_url(settings)
        async with service(settings, output.write_text), connected_async(url) as client:
            await _until_ready(client)
            yield url


async def _until_ready(client: AsyncAngelia) -> None:
    try:
        async with asyncio.timeout(_START_MAX_S):
            await until_ready(client, output.write_text)
    except TimeoutError as exc:
        raise CliError(f"The service was not ready within {_START_MAX_S:g} s.") from exc


def _own_settings(home: Path) -> Settings:
    """Return settings for a service that needs no other servers.

    The user's own settings for home folder, address, database, log, access control and namespace
    are not used.
    """
    host = "127.0.0.1"
    return changed(
        settings_with(home=home, host=host, port=free_port(host, 0), log_level="error"),
        database_url=None,
        auth="off",
        kafka_bootstrap=None,
        namespace="",
    )

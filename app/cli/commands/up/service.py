"""The whole service on this machine: a database, and an API and a worker that are kept running."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Final

from pydantic import SecretStr

from angelia_client import AsyncAngelia
from app.cli.async_client import readiness_of
from app.cli.commands.up.child import Child
from app.cli.python import python_command, python_environment
from app.cli.settings import changed
from app.config import Settings
from app.domain.network.egress import LOOPBACK
from app.storage.embedded.configured import database_url
from app.storage.keyring import secret_key_of
from app.storage.migrate import upgrade

Notify = Callable[[str], None]

_ALWAYS: Final = (("API", "app"), ("worker", "workers"))
_SPARK: Final = (("Spark runner", "spark"),)
_LOOK_EVERY: Final = timedelta(milliseconds=50)
_REMIND_EVERY: Final = timedelta(seconds=30)


@asynccontextmanager
async def service(
    settings: Settings, notify: Notify, *, with_spark: bool = False
) -> AsyncIterator[None]:
    """A migrated database, the API and a worker, started inside the block and stopped after it.

    `with_spark`: a Spark runner, too. They may not be ready yet. `notify` gets a line whenever one
    of them has died.
    """
    with _database(_profile(settings)) as complete:
        environment = python_environment(complete)
        children = [
            Child(name, python_command(module), environment=environment, notify=notify)
            for name, module in (*_ALWAYS, *(_SPARK if with_spark else ()))
        ]
        async with _kept_running(children):
            yield


async def until_ready(client: AsyncAngelia, notify: Notify) -> None:
    """Return when the API can take messages; `notify` gets a line now and then until it can."""
    loop = asyncio.get_running_loop()
    remind_at = loop.time() + _REMIND_EVERY.total_seconds()
    while True:
        ready, words = await readiness_of(client)
        if ready:
            return
        if loop.time() >= remind_at:
            notify(f"Not ready yet: {words}")
            remind_at += _REMIND_EVERY.total_seconds()
        await asyncio.sleep(_LOOK_EVERY.total_seconds())


def _profile(settings: Settings) -> Settings:
    """What goes without saying on a machine where nothing is configured."""
    usual = {
        # The terminal is shared: only what somebody should know.
        "log_level": "warning",
        # Who tries something out has the receiver here, too.
        "allow_private_endpoints": LOOPBACK,
        # Children have no embedded database: they are told of ours.
        "auth": "keys" if settings.access_controlled else "off",
    }
    return changed(
        settings, **{k: v for k, v in usual.items() if k not in settings.model_fields_set}
    )


@contextmanager
def _database(settings: Settings) -> Iterator[Settings]:
    """The settings with a migrated database in them: a child that is told of one starts none.

    Nor has it a key of its own beside it, so it is told of ours. Blocks: nothing else is to be
    done before the database is there, nor while it stops.
    """
    key = secret_key_of(settings)
    keyed = settings if key is None else changed(settings, secret_key=key)
    with database_url(settings) as url:
        upgrade(url)
        # What is configured, children read themselves: it may change in its file.
        yield changed(keyed, database_url=SecretStr(url)) if isinstance(url, str) else keyed


@asynccontextmanager
async def _kept_running(children: Iterable[Child]) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each.run(), name=each.name) for each in children]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()

"""The whole service on this machine: a database, an API and a worker, kept running."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from pydantic import SecretStr

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


@asynccontextmanager
async def service(
    settings: Settings, notify: Notify, *, with_spark: bool = False
) -> AsyncIterator[None]:
    """Run a migrated database, the API and a worker inside the block.

    With `with_spark`, a Spark runner runs too. The processes may not be ready yet. `notify` is
    called with a line whenever one of them has ended.
    """
    with _database(_profile(settings)) as complete:
        environment = python_environment(complete)
        children = [
            Child(name, python_command(module), environment=environment, notify=notify)
            for name, module in (*_ALWAYS, *(_SPARK if with_spark else ()))
        ]
        async with _kept_running(children):
            yield


def _profile(settings: Settings) -> Settings:
    """Return the settings with other defaults, for a machine where nothing is configured."""
    usual = {
        # Log only important events, because several processes write to the same terminal.
        "log_level": "warning",
        # Allow endpoints on this machine, because users who try the service have their receiver
        # here.
        "allow_private_endpoints": LOOPBACK,
        # Set `auth` explicitly. Child processes use the parent's database, and would otherwise
        # choose another default.
        "auth": "keys" if settings.access_controlled else "off",
    }
    return changed(
        settings, **{k: v for k, v in usual.items() if k not in settings.model_fields_set}
    )


@contextmanager
def _database(settings: Settings) -> Iterator[Settings]:
    """Yield settings with the URL of a migrated database, so that child processes start none.

    Child processes also get the parent's key, because they have no key file. This function blocks:
    nothing else can run until the database has started, or while the database stops.
    """
    key = secret_key_of(settings)
    keyed = settings if key is None else changed(settings, secret_key=key)
    with database_url(settings) as url:
        upgrade(url)
        # Pass on only changed settings. Child processes read configured values themselves, because
        # a file may change.
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

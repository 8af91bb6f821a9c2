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
    """Run a migrated database, the API and a worker until the block ends.

    With `with_spark`, a Spark runner runs too. When the block begins, the processes are started but
    perhaps not ready. `notify` is called with a line each time a process has ended.
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
    """Return the settings with other default values, which fit a service on one machine.

    Settings that the user has configured stay as they are.
    """
    usual = {
        # Only important events are logged, because several processes write to the same terminal.
        "log_level": "warning",
        # Endpoints on this machine are allowed, because users who try the service have their
        # receiver on the same machine.
        "allow_private_endpoints": LOOPBACK,
        # `auth` is set explicitly. Child processes use the parent's database as if it were not
        # embedded, and would choose another default for `auth`.
        "auth": "keys" if settings.access_controlled else "off",
    }
    return changed(
        settings, **{k: v for k, v in usual.items() if k not in settings.model_fields_set}
    )


@contextmanager
def _database(settings: Settings) -> Iterator[Settings]:
    """Migrate the database, and yield the settings for child processes.

    An embedded database is started first. The settings then contain its URL, so child processes do
    not start a database of their own. They also get the parent's secret key, because they have no
    key file. This function blocks: while the database starts or stops, nothing else can run in this
    process.
    """
    key = secret_key_of(settings)
    keyed = settings if key is None else changed(settings, secret_key=key)
    with database_url(settings) as url:
        upgrade(url)
        # Child processes get only the settings that were changed here. They read all other settings
        # themselves, because a file with a setting may change later.
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

"""`angelia check`: the settings, their sources, and whether each part responds."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from app import native
from app.cli import output
from app.cli.async_client import readiness
from app.cli.errors import CliError
from app.cli.options import Json, JsonOption
from app.cli.quiet import quiet_logs
from app.cli.settings import api_url, settings_with
from app.config import Settings
from app.domain.catalogue.token_grants import UNRESTRICTED
from app.domain.errors import AngeliaError, SecretKeyError, StorageUnavailableError
from app.log.factory import open_log
from app.log.interface import MessageLog
from app.postgres.urls import DatabaseUrl, direct
from app.services.durability import DurabilityService
from app.shown_settings import masked, shown_settings
from app.storage.catalogue.oauth_providers import OAuthProviderRepository
from app.storage.database import Database, open_database
from app.storage.embedded.configured import configured_url, database_url
from app.storage.keyring import KEY_FILE, open_vault
from app.vault import HOW_TO_SET

_OK: Final = "ok"
_OF_POOLER: Final = (
    "unless it pools by session, set ANGELIA_DATABASE_DIRECT_URL, too (docs/postgres.md)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePart:
    """One part of the service; `problem` is empty if it works."""

    name: str
    where: str
    problem: str
    required: bool = True


def check(*, as_json: JsonOption = False) -> None:
    """Print every setting with its source, and whether each part responds.

    Exits with 1 if the database, its tables or the message log do not work; an API that does not
    run is only reported. An embedded PostgreSQL is started for the check.
    """
    quiet_logs()
    settings = settings_with()
    parts = [_hot_path(), *_parts(settings)]
    if as_json:
        listed = [asdict(part) for part in parts]
        output.write_json({"settings": _settings(settings), "parts": listed})
    else:
        _write(settings, parts)
    failed = [part.name for part in parts if part.required and part.problem]
    if failed:
        raise CliError(f"Not as it must be: {', '.join(failed)}")


def _settings(settings: Settings) -> Sequence[Json]:
    return [
        {"name": each.name, "value": each.value, "from": each.source}
        for each in shown_settings(settings)
    ]


def _hot_path() -> ServicePart:
    where = "compiled" if native.is_compiled() else "interpreted"
    return ServicePart(name="code", where=where, problem=native.problem(), required=False)


def _parts(settings: Settings) -> Sequence[ServicePart]:
    where = _masked_database(settings)
    try:
        with database_url(settings) as url:
            return asyncio.run(_running(settings, url=url, where=where))
    except StorageUnavailableError as exc:
        # The embedded database could not be started. The report shows this error as a problem of
        # the database.
        api = asyncio.run(_api(settings))
        return [ServicePart(name="database", where=where, problem=exc.message), api]


def _masked_database(settings: Settings) -> str:
    if settings.database_url is None:
        return f"embedded, in {settings.home.absolute()}"
    return masked(settings.database_url.get_secret_value())


async def _running(settings: Settings, *, url: DatabaseUrl, where: str) -> Sequence[ServicePart]:
    async with open_database(url) as database:
        return [
            ServicePart(name="database", where=where, problem=await _ping(database)),
            *await _sessions(settings, database),
            ServicePart(name="migrations", where=where, problem=await _migrations(database)),
            *await _log(settings, database, url=url),
            _secret_key(settings),
            await _oauth_providers(database),
            await _api(settings),
        ]


async def _sessions(settings: Settings, database: Database) -> Sequence[ServicePart]:
    """Check the URL that leads to the database server without a connection pooler, if it is set.

    If this URL is not set but needed, return the advice to set it. If it is not needed, return
    nothing.
    """
    address = configured_url(settings)
    if address is None:
        return []
    if address.direct is None or settings.database_direct_url is None:
        return await _pooler(settings, database)
    where = masked(settings.database_direct_url.get_secret_value())
    async with open_database(direct(address)) as itself:
        return [ServicePart(name="database itself", where=where, problem=await _ping(itself))]


async def _pooler(settings: Settings, database: Database) -> Sequence[ServicePart]:
    try:
        if not await database.through_pooler():
            return []
    except AngeliaError:
        return []  # return nothing: the direct URL is the same as the database's
    where = _masked_database(settings)
    return [ServicePart(name="pooler", where=where, problem=_OF_POOLER, required=False)]


async def _ping(database: Database) -> str:
    try:
        await database.ping()
    except AngeliaError as exc:
        return exc.message
    return ""


async def _migrations(database: Database) -> str:
    try:
        migrated = await database.migrated()
    except AngeliaError as exc:
        return exc.message
    return "" if migrated else "not those of this version: run `angelia migrate`"


async def _log(
    settings: Settings, database: Database, *, url: DatabaseUrl
) -> Sequence[ServicePart]:
    where = "in the database" if settings.embedded_log else f"Kafka at {settings.kafka_bootstrap}"
    problem = ""
    durability: Sequence[ServicePart] = ()
    numbering: Sequence[ServicePart] = ()
    try:
        async with open_log(settings, database_url=url) as log:
            durability = await _durability(settings, database, log)
            await log.ping()
            numbering = await _numbering(settings, log)
    except AngeliaError as exc:
        problem = exc.message
    return [ServicePart(name="message log", where=where, problem=problem), *durability, *numbering]


async def _numbering(settings: Settings, log: MessageLog) -> Sequence[ServicePart]:
    """Check whether Kafka stores a message only once, even if its acknowledgement is lost."""
    if settings.embedded_log:
        return []
    try:
        problem = await log.numbering_problem()
    except AngeliaError as exc:
        problem = exc.message
    return [ServicePart(name="idempotence", where="Kafka", problem=problem, required=False)]


async def _durability(
    settings: Settings, database: Database, log: MessageLog
) -> Sequence[ServicePart]:
    """Return the problems because of which acknowledged messages can be lost.

    None of these problems makes the command fail.
    """
    found = await DurabilityService(database, settings.replication, log).risks(with_names=True)
    return [
        ServicePart(name="durability", where="Kafka", problem=each, required=False)
        for each in found or ([""] if settings.replication else [])
    ]


def _secret_key(settings: Settings) -> ServicePart:
    where = "ANGELIA_SECRET_KEY"
    if settings.secret_key is None and settings.embedded_database:
        where = str(settings.home.absolute() / KEY_FILE)
    try:
        known = open_vault(settings).key_ids
        problem = "" if known else f"no secret can be stored: {HOW_TO_SET}"
    except SecretKeyError as exc:
        problem = exc.message
    return ServicePart(name="secret key", where=where, problem=problem, required=False)


async def _oauth_providers(database: Database) -> ServicePart:
    try:
        async with database.transaction() as session:
            names = await OAuthProviderRepository(session).unrestricted()
    except AngeliaError as exc:
        problem = exc.message
    else:
        problem = f"{', '.join(names)}: {UNRESTRICTED}" if names else ""
    return ServicePart(
        name="OAuth providers", where="in the database", problem=problem, required=False
    )


async def _api(settings: Settings) -> ServicePart:
    url = api_url(settings)
    ready, words = await readiness(url)
    problem = "" if ready else f"not ready: {words}"
    return ServicePart(name="API", where=url, problem=problem, required=False)


def _write(settings: Settings, parts: Sequence[ServicePart]) -> None:
    output.write_table(
        ["SETTING", "VALUE", "FROM"], [list(each.values()) for each in _settings(settings)]
    )
    output.write_text("")
    output.write_table(
        ["PART", "WHERE", "STATE"],
        [[part.name, part.where, part.problem or _OK] for part in parts],
    )

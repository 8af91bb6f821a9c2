"""`angelia keys …`: the API keys of callers."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, TypeVar

import typer

from app.cli import output
from app.cli.client import connected
from app.cli.environment import api_key
from app.cli.errors import CliError
from app.cli.options import ApiOption, Json, JsonOption
from app.cli.quiet import quiet_logs
from app.cli.settings import settings_with
from app.domain.access.keys import ApiKey, Caller, Scope
from app.services.access.audit import act_as
from app.services.access.keys import KeyDraft, KeyService
from app.storage.database import Database, open_database
from app.storage.embedded.configured import database_url

keys = typer.Typer(
    no_args_is_help=True,
    help="API keys: create, list, revoke. Without a key of your own, straight in the database.",
)

_COLUMNS: Final = ("id", "name", "scopes", "createdBy", "expiresAt", "revokedAt", "lastUsedAt")
_PAGE: Final = 1000
_OPERATOR: Final = Caller(name="operator at the command line")

T = TypeVar("T")


@keys.command()
def create(
    name: Annotated[str, typer.Argument(help="Who it is for.")],
    *,
    scope: Annotated[
        list[str],
        typer.Option(
            help="What it may do: admin, read, owner:id, group:name, topic:group.name,"
            " subscription:group.topic/name, publish:group.* (give any number of them)."
        ),
    ],
    days: Annotated[
        int | None, typer.Option(min=1, max=3650, help="Days until it expires; default: never.")
    ] = None,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a key and print it. The key is shown only once."""
    made = _create(name, scope, days=days, api=api)
    if as_json:
        output.write_json(made)
        return
    output.write_text(str(made["key"]))
    output.err.print(f"Key {made['id']} of {name}: keep it, it is shown this once.")


@keys.command("list")
def list_keys(*, api: ApiOption = None, as_json: JsonOption = False) -> None:
    """List all keys, with revoked and expired ones."""
    found = _list(api)
    if as_json:
        output.write_json(found)
        return
    rows = [[_cell(each.get(column, "")) for column in _COLUMNS] for each in found]
    output.write_table([column.upper() for column in _COLUMNS], rows)


@keys.command()
def revoke(
    key: Annotated[str, typer.Argument(help="Id of the key: see `angelia keys list`.")],
    *,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Revoke a key. All processes refuse it within moments."""
    # Take only the id of the key, if the user gave the whole token.
    key_id = key.removeprefix("ang_").partition("_")[0]
    _revoke(key_id, api)
    output.write_done(f"Revoked {key_id}", {"id": key_id}, as_json=as_json)


def _create(name: str, scopes: Sequence[str], *, days: int | None, api: str | None) -> Json:
    lifetime = None if days is None else timedelta(days=days)
    if _by_rest(api):
        with connected(api) as client:
            return dict(client.keys.create(name, scopes=scopes, lifetime=lifetime).raw)

    async def make(service: KeyService) -> Json:
        expires_at = None if lifetime is None else datetime.now(UTC) + lifetime
        parsed = tuple(Scope.parse(each, path="--scope") for each in scopes)
        draft = KeyDraft(name=name, scopes=parsed, expires_at=expires_at)
        made = await service.create(draft)
        return _key_json(made.key) | {"key": made.token}

    return asyncio.run(_in_database(make))


def _list(api: str | None) -> list[Json]:
    if _by_rest(api):
        with connected(api) as client:
            return [dict(each.raw) for each in client.keys.all()]

    async def read(service: KeyService) -> list[Json]:
        found: list[ApiKey] = []
        while more := await service.page(limit=_PAGE, after=_last(found)):
            found += more
        return [_key_json(key) for key in found]

    return asyncio.run(_in_database(read))


def _revoke(key_id: str, api: str | None) -> None:
    if _by_rest(api):
        with connected(api) as client:
            client.keys.revoke(key_id)
        return

    async def end(service: KeyService) -> None:
        await service.revoke(key_id)

    asyncio.run(_in_database(end))


def _by_rest(api: str | None) -> bool:
    """Return whether to call the API. If not, the command uses the database.

    The API is called if the user gave its address, or if there is an API key for it.
    """
    return api is not None or api_key() is not None


async def _in_database(work: Callable[[KeyService], Awaitable[T]]) -> T:
    """Run `work` on the database, as an operator who has access to it."""
    quiet_logs()
    with database_url(settings_with()) as url:
        async with open_database(url) as database:
            await _require_migrated(database)
            act_as(_OPERATOR)
            return await work(KeyService(database))


async def _require_migrated(database: Database) -> None:
    if not await database.migrated():
        raise CliError(
            "The database has not this version's tables.", hint="Run `angelia migrate` first."
        )


def _last(found: Sequence[ApiKey]) -> str | None:
    return found[-1].id if found else None


def _key_json(key: ApiKey) -> Json:
    times = {
        "createdAt": key.created_at,
        "expiresAt": key.expires_at,
        "revokedAt": key.revoked_at,
        "lastUsedAt": key.last_used_at,
    }
    texts = {name: at.isoformat(timespec="seconds") for name, at in times.items() if at is not None}
    scopes = [str(each) for each in key.scopes]
    return {"id": key.id, "name": key.name, "scopes": scopes, "createdBy": key.created_by, **texts}


def _cell(value: object) -> str:
    return " ".join(value) if isinstance(value, list) else str(value)

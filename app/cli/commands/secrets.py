"""`angelia secrets …`: the keys that encrypt stored secrets."""

import asyncio

import typer

from app.cli import output
from app.cli.errors import CliError
from app.cli.quiet import quiet_logs
from app.cli.settings import settings_with
from app.domain.errors import FieldProblem
from app.postgres.urls import DatabaseUrl
from app.services.catalogue.secret_rotation import Rotation, rotate_secrets
from app.storage.database import open_database
from app.storage.embedded.configured import database_url
from app.storage.keyring import open_vault
from app.vault import HOW_TO_SET, Vault, new_key

secrets = typer.Typer(no_args_is_help=True, help="The keys of stored secrets: make, change.")


@secrets.command()
def key() -> None:
    """Print a new key, for ANGELIA_SECRET_KEY."""
    output.write_text(new_key())


@secrets.command()
def rotate() -> None:
    """Encrypt all stored secrets with the first key of ANGELIA_SECRET_KEY.

    To change the key, give both keys to every process, the new one first. Then run this command,
    and remove the old key. The command may run beside the service, and may be repeated. It exits
    with 1 if a secret was encrypted with neither key.
    """
    quiet_logs()
    settings = settings_with()
    vault = open_vault(settings)
    if not vault.key_ids:
        raise CliError(f"There is no key to encrypt with: {HOW_TO_SET}")
    with database_url(settings) as url:
        done = asyncio.run(_rotated(url, vault))
    output.write_text(
        f"{done.secrets} secrets: {done.resealed} encrypted again,"
        f" all that can be read are under the key {vault.key_ids[0]}"
    )
    if done.unreadable:
        raise CliError(
            "These have secrets under keys that are not in ANGELIA_SECRET_KEY:",
            details=[_problem(each) for each in done.unreadable],
        )


def _problem(unreadable: str) -> FieldProblem:
    where, _, why = unreadable.partition(": ")
    return FieldProblem(path=where, message=why)


async def _rotated(url: DatabaseUrl, vault: Vault) -> Rotation:
    async with open_database(url, vault=vault) as database:
        return await rotate_secrets(database)

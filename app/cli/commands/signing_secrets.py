"""`angelia subscription secrets …`: the secrets that sign a subscription's deliveries."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from app.cli import output
from app.cli.client import connected
from app.cli.errors import CliError
from app.cli.options import ApiOption, Json, JsonOption, SubscriptionArgument, TopicArgument

signing_secrets = typer.Typer(
    no_args_is_help=True, help="Signing secrets (Standard Webhooks): create, list, delete."
)


class SecretKind(StrEnum):
    """The signature method of a secret."""

    V1 = "v1"
    V1A = "v1a"


@signing_secrets.command()
def create(
    topic: TopicArgument,
    name: SubscriptionArgument,
    *,
    kind: Annotated[
        SecretKind, typer.Option("--type", help="HMAC-SHA256 (v1), or ed25519 (v1a).")
    ] = SecretKind.V1,
    file: Annotated[
        Path | None,
        typer.Option(help="A file with the secret, whsec_… or whsk_…; one is made without it."),
    ] = None,
    overlap: Annotated[
        int | None, typer.Option(min=0, help="Seconds for which older ones sign, too [86400].")
    ] = None,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Sign with a new secret from now on, and print it once.

    An existing secret is read from a file: on a command line others could read it.
    """
    body: Json = {"type": kind.value}
    if file is not None:
        body["secret"] = _read(file)
    if overlap is not None:
        body["overlap"] = overlap
    with connected(api) as client:
        made = client.signing_secrets.create(topic, name, settings=body)
    output.write_object(made.raw, as_json=as_json)


@signing_secrets.command("list")
def list_secrets(
    topic: TopicArgument,
    name: SubscriptionArgument,
    *,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the secrets that sign deliveries, without their values."""
    with connected(api) as client:
        found = [each.raw for each in client.signing_secrets.all(topic, name)]
    if as_json:
        output.write_json(found)
        return
    output.write_table(
        ["ID", "TYPE", "CREATED", "EXPIRES", "PUBLIC KEY"],
        [
            [each.get(field, "") for field in ("id", "type", "createdAt", "expiresAt", "publicKey")]
            for each in found
        ],
    )


@signing_secrets.command()
def delete(
    topic: TopicArgument,
    name: SubscriptionArgument,
    secret_id: Annotated[str, typer.Argument(help="Id of the secret, as listed.")],
    *,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Stop signing with a secret immediately."""
    with connected(api) as client:
        client.signing_secrets.delete(topic, name, secret_id=secret_id)
    output.write_done(f"Deleted {secret_id} of {name}", {"id": secret_id}, as_json=as_json)


def _read(file: Path) -> str:
    try:
        return file.read_text("ascii").strip()
    except (OSError, ValueError) as exc:
        raise CliError(f"No secret can be read from {file}") from exc

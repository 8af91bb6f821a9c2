"""`angelia topic schema …`: the schema of a topic's messages."""

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from app.cli import output
from app.cli.client import connected
from app.cli.errors import CliError, Exit
from app.cli.options import ApiOption, JsonOption, TopicArgument

schemas = typer.Typer(
    no_args_is_help=True, help="The schema of a topic's messages: show, versions, set, delete."
)

_INPUT: Final = Path("-")


@schemas.command()
def show(
    topic: TopicArgument,
    *,
    version: Annotated[
        int | None, typer.Option(min=0, help="This version; default: the one in force.")
    ] = None,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the text of the schema exactly as it was set; exits with 4 if there is no schema."""
    with connected(api) as client:
        found = client.schemas.get(topic, version=version)
    if found is None:
        raise CliError(f"{topic} has no such schema", exit_code=Exit.NOT_FOUND)
    result = {"version": found.version, "id": found.id, "schema": found.text}
    output.write_done(found.text, result, as_json=as_json)


@schemas.command()
def versions(topic: TopicArgument, *, api: ApiOption = None, as_json: JsonOption = False) -> None:
    """List all versions, the oldest first."""
    with connected(api) as client:
        found = client.schemas.versions(topic)
    if as_json:
        output.write_json([each.raw for each in found])
        return
    rows = [[each.version, each.id, "yes" if each.in_force else ""] for each in found]
    output.write_table(["VERSION", "ID", "IN FORCE"], rows)


@schemas.command("set")
def set_schema(
    topic: TopicArgument,
    file: Annotated[Path, typer.Argument(help="A JSON Schema or an Avro schema; `-`: the input.")],
    *,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a version of the schema, and put it into force."""
    text = _read(file)
    with connected(api) as client:
        version = client.schemas.add(topic, text)
    output.write_done(f"Version {version} is in force", {"version": version}, as_json=as_json)


@schemas.command()
def delete(topic: TopicArgument, *, api: ApiOption = None, as_json: JsonOption = False) -> None:
    """Stop validating messages against a schema."""
    with connected(api) as client:
        client.schemas.delete(topic)
    output.write_done(f"{topic} has no schema any more", {"name": topic}, as_json=as_json)


def _read(file: Path) -> str:
    try:
        return sys.stdin.read() if file == _INPUT else file.read_text()
    except (OSError, ValueError) as exc:
        raise CliError(f"No schema can be read from {file}: {exc}") from exc

"""`angelia group …`."""

from typing import Annotated

import typer

from app.cli import output
from app.cli.client import connected
from app.cli.options import ApiOption, JsonOption

groups = typer.Typer(no_args_is_help=True, help="Groups of topics: list, create, delete.")

GroupArgument = Annotated[str, typer.Argument(help="Name of the group.")]


@groups.command("list")
def list_groups(*, api: ApiOption = None, as_json: JsonOption = False) -> None:
    """List the groups."""
    with connected(api) as client:
        names = client.groups.names()
    output.write_names("GROUP", names, as_json=as_json)


@groups.command()
def create(name: GroupArgument, *, api: ApiOption = None, as_json: JsonOption = False) -> None:
    """Create a group."""
    with connected(api) as client:
        client.groups.create(name)
    output.write_done(f"Created {name}", {"groupName": name}, as_json=as_json)


@groups.command()
def delete(name: GroupArgument, *, api: ApiOption = None, as_json: JsonOption = False) -> None:
    """Delete a group without topics."""
    with connected(api) as client:
        client.groups.delete(name)
    output.write_done(f"Deleted {name}", {"groupName": name}, as_json=as_json)

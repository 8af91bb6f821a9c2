"""`angelia topic …`."""

from typing import Annotated

import typer

from app.cli import output
from app.cli.bodies import topic_settings
from app.cli.client import connected
from app.cli.commands.schemas import schemas
from app.cli.options import (
    ApiOption,
    JsonOption,
    PatchArgument,
    SettingsOption,
    TopicArgument,
)

topics = typer.Typer(
    no_args_is_help=True, help="Topics: list, create, adopt, show, change, delete; their schemas."
)
topics.add_typer(schemas, name="schema")


@topics.command("list")
def list_topics(
    *,
    group: Annotated[str | None, typer.Option(help="Only those of this group.")] = None,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the topics."""
    with connected(api) as client:
        names = client.topics.names(group=group)
    output.write_names("TOPIC", names, as_json=as_json)


@topics.command()
def create(
    name: Annotated[str, typer.Argument(help="Name of the topic: group.topic.")],
    *,
    description: Annotated[str, typer.Option(help="What it is about.")] = "",
    partitions: Annotated[
        int | None, typer.Option(min=1, help="Partitions; default: the service's.")
    ] = None,
    settings: SettingsOption = None,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a topic of JSON messages."""
    usual = topic_settings(description=description, partitions=partitions)
    with connected(api) as client:
        made = client.topics.create(name, usual | (settings or {}))
    output.write_done(f"Created {name}", made.raw, as_json=as_json)


@topics.command()
def adopt(
    name: Annotated[str, typer.Argument(help="Name of the topic: group.topic.")],
    *,
    description: Annotated[str, typer.Option(help="What it is about.")] = "",
    settings: SettingsOption = None,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take over a topic that exists in Kafka, with its partitions and messages."""
    usual = topic_settings(description=description) | {"adopted": True}
    with connected(api) as client:
        made = client.topics.create(name, usual | (settings or {}))
    output.write_done(f"Adopted {name}", made.raw, as_json=as_json)


@topics.command()
def show(topic: TopicArgument, *, api: ApiOption = None, as_json: JsonOption = False) -> None:
    """Show a topic's settings, counts and subscriptions."""
    with connected(api) as client:
        found = {
            **client.topics.get(topic).raw,
            "metrics": client.topics.metrics(topic).raw,
            "subscriptions": client.subscriptions.names(topic),
        }
    output.write_object(found, as_json=as_json)


@topics.command()
def change(
    topic: TopicArgument,
    patch: PatchArgument,
    *,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change settings of a topic, for example '{"retentionTime": {"duration": 2}}'."""
    with connected(api) as client:
        changed = client.topics.change(topic, patch)
    output.write_done(f"Changed {topic}", changed.raw, as_json=as_json)


@topics.command()
def delete(topic: TopicArgument, *, api: ApiOption = None, as_json: JsonOption = False) -> None:
    """Delete a topic with its messages. The topic must have no subscriptions."""
    with connected(api) as client:
        client.topics.delete(topic)
    output.write_done(f"Deleted {topic}", {"name": topic}, as_json=as_json)

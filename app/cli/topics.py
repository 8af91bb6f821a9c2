"""`angelia topic …`."""

import asyncio
from typing import Annotated

import typer

from app.cli import output
from app.cli.bodies import new_topic
from app.cli.client import Api, Json
from app.cli.options import ApiOption, JsonOption, TopicArgument, address

topics = typer.Typer(no_args_is_help=True, help="Topics: list, create, show, delete.")


@topics.command("list")
def list_topics(*, api: ApiOption = None, as_json: JsonOption = False) -> None:
    """List the topics."""
    names = asyncio.run(_names(address(api)))
    if as_json:
        output.write_json(names)
    else:
        output.write_table(["TOPIC"], [[name] for name in names])


@topics.command()
def create(
    name: TopicArgument,
    *,
    description: Annotated[str, typer.Option(help="What it is about.")] = "",
    partitions: Annotated[
        int | None, typer.Option(min=1, help="Partitions; default: the service's.")
    ] = None,
    api: ApiOption = None,
) -> None:
    """Create a topic of JSON messages."""
    asyncio.run(
        _create(address(api), new_topic(name, description=description, partitions=partitions))
    )
    output.say(f"Created {name}")


@topics.command()
def show(name: TopicArgument, *, api: ApiOption = None, as_json: JsonOption = False) -> None:
    """Show a topic's settings, counts and subscriptions."""
    topic = asyncio.run(_show(address(api), name))
    if as_json:
        output.write_json(topic)
    else:
        output.write_fields(topic)


@topics.command()
def delete(name: TopicArgument, *, api: ApiOption = None) -> None:
    """Delete a topic with its messages; it must have no subscriptions."""
    asyncio.run(_delete(address(api), name))
    output.say(f"Deleted {name}")


async def _names(url: str) -> list[str]:
    async with Api.at(url) as api:
        return await api.topics()


async def _create(url: str, body: Json) -> None:
    async with Api.at(url) as api:
        await api.create_topic(body)


async def _show(url: str, name: str) -> Json:
    async with Api.at(url) as api:
        topic = await api.topic(name)
        metrics = await api.topic_metrics(name)
        return topic | {"metrics": metrics, "subscriptions": await api.subscriptions(name)}


async def _delete(url: str, name: str) -> None:
    async with Api.at(url) as api:
        await api.delete_topic(name)

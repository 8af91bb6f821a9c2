"""`angelia publish` and `angelia undelivered`."""

import asyncio
import sys
from typing import Annotated

import typer

from app.cli import output
from app.cli.client import Api, Json
from app.cli.options import ApiOption, JsonOption, SubscriptionArgument, TopicArgument, address

_BODY_SHOWN_MAX = 200


def publish(
    topic: TopicArgument,
    body: Annotated[str, typer.Argument(help="The message; `-`: read it from the input.")] = "-",
    *,
    key: Annotated[
        str | None, typer.Option(help="Partition-Key: messages with one key share a partition.")
    ] = None,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Publish one message; prints the id it got."""
    content = sys.stdin.buffer.read() if body == "-" else body.encode()
    message_id = asyncio.run(_publish(address(api), topic, content, key=key))
    if as_json:
        output.write_json({"messageId": message_id})
    else:
        output.say(message_id)


def undelivered(
    topic: TopicArgument,
    subscription: SubscriptionArgument,
    *,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")] = 100,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """List discarded messages, newest first."""
    found = asyncio.run(_undelivered(address(api), topic, subscription, limit=limit))
    if as_json:
        output.write_json(found)
        return
    output.write_table(
        ["TIME", "MESSAGE", "REASON", "BODY"],
        [
            [
                output.time_of(each.get("timestamp")),
                each.get("messageId", ""),
                each.get("reason", ""),
                _shortened(str(each.get("message", ""))),
            ]
            for each in found
        ],
        whole=2,
    )


async def _publish(url: str, topic: str, body: bytes, *, key: str | None) -> str:
    async with Api.at(url) as api:
        return await api.publish(topic, body, key=key)


async def _undelivered(url: str, topic: str, name: str, *, limit: int) -> list[Json]:
    async with Api.at(url) as api:
        return await api.undelivered(topic, name, limit=limit)


def _shortened(text: str) -> str:
    return text if len(text) <= _BODY_SHOWN_MAX else f"{text[:_BODY_SHOWN_MAX]}…"

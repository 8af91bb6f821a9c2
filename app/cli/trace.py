"""`angelia trace`: what happened to a message."""

import asyncio
from typing import Annotated

import typer

from app.cli import output
from app.cli.client import Api, Json
from app.cli.options import ApiOption, JsonOption, address


def trace(
    message_id: Annotated[str, typer.Argument(help="Id of the message, as `publish` printed it.")],
    *,
    topic: Annotated[str | None, typer.Option(help="Only in this topic.")] = None,
    subscription: Annotated[
        str | None, typer.Option(help="Only at this subscription of the topic.")
    ] = None,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what happened to a message, oldest first."""
    if subscription is not None and topic is None:
        raise typer.BadParameter("needs --topic", param_hint="--subscription")
    found = asyncio.run(_trace(address(api), message_id, topic=topic, subscription=subscription))
    if as_json:
        output.write_json(found)
    elif not found:
        output.say("Nothing is known of it: its topic and subscriptions may not be traced.")
    else:
        output.write_table(
            ["TIME", "AT", "STATUS", "TRY", "CODE", "TOOK", "REASON"],
            [_row(each) for each in found],
            whole=5,
        )


async def _trace(
    url: str, message_id: str, *, topic: str | None, subscription: str | None
) -> list[Json]:
    async with Api.at(url) as api:
        return await api.trace(message_id, topic=topic, subscription=subscription)


def _row(entry: Json) -> list[object]:
    took = entry.get("took")
    return [
        output.time_of(entry.get("timestamp")),
        entry.get("subscription") or "publication",
        entry.get("status", ""),
        str(entry.get("attempt", "")),
        str(entry.get("statusCode", "")),
        "" if took is None else f"{took:.1f} ms",
        entry.get("reason", ""),
    ]

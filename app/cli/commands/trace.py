"""`angelia trace`: what happened to a message."""

from typing import Annotated

import typer

from angelia_client import TraceEntry
from app.cli import output
from app.cli.client import connected
from app.cli.completion import subscription_names, topic_names
from app.cli.options import ApiOption, JsonOption


def trace(
    message_id: Annotated[str, typer.Argument(help="Id of the message, as `publish` printed it.")],
    *,
    topic: Annotated[
        str | None, typer.Option(help="Only in this topic.", autocompletion=topic_names)
    ] = None,
    subscription: Annotated[
        str | None,
        typer.Option(
            help="Only at this subscription of the topic.", autocompletion=subscription_names
        ),
    ] = None,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what happened to a message, oldest first."""
    if subscription is not None and topic is None:
        raise typer.BadParameter("needs --topic", param_hint="--subscription")
    with connected(api) as client:
        found = client.messages.trace(message_id, topic=topic, subscription=subscription)
    if as_json:
        output.write_json([each.raw for each in found])
    elif not found:
        output.write_text("Nothing is known of it: its topic and subscriptions may not be traced.")
    else:
        output.write_table(
            ["TIME", "AT", "STATUS", "TRY", "CODE", "TOOK", "REASON"],
            [_row(each) for each in found],
        )


def _row(entry: TraceEntry) -> list[object]:
    return [
        output.local_time(entry.at),
        entry.subscription or "publication",
        entry.status,
        "" if entry.attempt is None else str(entry.attempt),
        "" if entry.status_code is None else str(entry.status_code),
        "" if entry.took is None else f"{entry.took:.1f} ms",
        entry.reason or "",
    ]

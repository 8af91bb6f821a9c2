"""`angelia alerts`: what is wrong with subscriptions."""

from typing import Annotated

import typer

from app.cli import output
from app.cli.client import connected
from app.cli.options import ApiOption, JsonOption


def alerts(
    *,
    every: Annotated[bool, typer.Option("--all", help="Also what is over.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 100,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what is wrong with subscriptions, newest first.

    The same alerts are published to the topic `angelia.alerts`.
    """
    with connected(api) as client:
        found = client.subscriptions.alerts(active=not every, limit=limit)
    if as_json:
        output.write_json([each.raw for each in found])
        return
    output.write_table(
        ["SINCE", "UNTIL", "KIND", "SUBSCRIPTION", "WHAT"],
        [
            [
                output.local_time(each.raised_at),
                output.local_time(each.cleared_at),
                each.kind,
                f"{each.topic}/{each.subscription}",
                each.description,
            ]
            for each in found
        ],
    )

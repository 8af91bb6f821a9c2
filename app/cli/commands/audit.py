"""`angelia audit`: who has changed what."""

from itertools import islice
from typing import Annotated

import typer

from app.cli import output
from app.cli.client import connected
from app.cli.options import ApiOption, JsonOption, LimitOption, SinceOption, UntilOption


def audit(
    *,
    kind: Annotated[str | None, typer.Option(help="topic, subscription, group, key, …")] = None,
    name: Annotated[
        str | None, typer.Option(help="Its name; a subscription's: topic/name.")
    ] = None,
    actor: Annotated[str | None, typer.Option(help="Name of the key that was used.")] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: LimitOption = 100,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """List who has changed what, newest first."""
    query = {"kind": kind, "name": name, "actor": actor, "since": since, "until": until}
    with connected(api) as client:
        found = list(islice(client.audit.events(query), limit))
    if as_json:
        output.write_json([each.raw for each in found])
        return
    output.write_table(
        ["TIME", "WHO", "ACTION", "KIND", "NAME"],
        [
            [output.local_time(each.at), each.actor, each.action, each.kind, each.name]
            for each in found
        ],
    )

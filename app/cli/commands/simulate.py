"""`angelia simulate`: shows what a subscription with other settings would have sent."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from app.cli import output
from app.cli.client import connected
from app.cli.commands.jobs import followed
from app.cli.errors import CliError
from app.cli.options import (
    ApiOption,
    JsonOption,
    SinceOption,
    SubscriptionArgument,
    TopicArgument,
    UntilOption,
)

_EXAMPLES: Final = {
    "addedMessages": "Messages that only these filters want:",
    "droppedMessages": "Messages that only the filters as they are want:",
}
_COLUMNS: Final = ("MESSAGE", "PARTITION", "OFFSET", "PUBLISHED", "BYTES")


def _filters(text: str) -> list[Any]:
    try:
        value = json.loads(text)
    except ValueError as exc:
        raise typer.BadParameter(f"is no JSON: {exc}") from exc
    if not isinstance(value, list):
        raise typer.BadParameter('must be a JSON array: [{"type": "jsonpath", …}]')
    return value


def simulate(  # noqa: PLR0913 - each parameter is an option
    topic: TopicArgument,
    subscription: SubscriptionArgument,
    *,
    filters: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="Other filters, as in the API's body; [] for all."),
    ] = None,
    rate: Annotated[int | None, typer.Option(min=1, help="Messages a second.")] = None,
    inflight: Annotated[int | None, typer.Option(min=1, help="Requests at a time.")] = None,
    request_millis: Annotated[
        int | None,
        typer.Option(min=1, help="How long a request takes; else only the rate is a limit."),
    ] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait for it, and show what it finds.")
    ] = True,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let Spark try other filters or another rate on published messages; default: the last day."""
    body = {
        "filters": None if filters is None else _filters(filters),
        "rate": rate,
        "inflightSize": inflight,
        "requestMillis": request_millis,
        "from": None if since is None else since.isoformat(),
        "to": None if until is None else until.isoformat(),
    }
    given = {name: value for name, value in body.items() if value is not None}
    with connected(api) as client:
        job = client.analytics.simulate(topic, subscription, proposal=given)
    if not wait:
        output.write_done(job.waiting_for or f"Requested {job.id}", job.raw, as_json=as_json)
        return
    ended = followed(api, job.id)
    with connected(api) as client:
        found = client.analytics.simulation(topic, subscription, id_=job.id)
    if as_json:
        output.write_json(found)
    else:
        show(found)
    if ended.state != "DONE":
        raise CliError(ended.reason or f"The simulation was not done: it is {ended.state}")


def show(found: Mapping[str, Any]) -> None:
    """Print the result of a simulation: the sums, and examples if there are any."""
    output.write_fields(found.get("result", {}))
    for name, title in _EXAMPLES.items():
        if messages := found.get(name):
            output.write_text(f"\n{title}")
            output.write_table(_COLUMNS, map(_row, messages))


def _row(message: Mapping[str, Any]) -> Sequence[object]:
    at = datetime.fromtimestamp(message["timestamp"] / 1_000, UTC)
    position = (message["partition"], message["offset"])
    return (message["messageId"], *position, output.local_time(at), message["size"])

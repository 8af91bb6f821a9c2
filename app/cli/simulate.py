"""`angelia simulate`: what a subscription would have had to send, had it been another."""

import json
from typing import Annotated, Any

import typer

from app.cli import output
from app.cli.client import connected
from app.cli.errors import CliError
from app.cli.jobs import followed
from app.cli.options import (
    ApiOption,
    JsonOption,
    SinceOption,
    SubscriptionArgument,
    TopicArgument,
    UntilOption,
)


def _filters(text: str) -> list[Any]:
    try:
        value = json.loads(text)
    except ValueError as exc:
        raise typer.BadParameter(f"is no JSON: {exc}") from exc
    if not isinstance(value, list):
        raise typer.BadParameter('must be a JSON array: [{"type": "jsonpath", …}]')
    return value


def simulate(  # noqa: PLR0913 - each an option
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
    """Have Spark try other filters or another rate on what was published; default: the last day."""
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
    output.write_object(found if as_json else found.get("result", {}), as_json=as_json)
    if ended.state != "DONE":
        raise CliError(ended.reason or f"The simulation was not done: it is {ended.state}")

"""`angelia messages` and `angelia undelivered`: the log's messages, and undelivered ones."""

from itertools import islice
from typing import Annotated, Final

import typer

from angelia_client import DiscardQuery
from app.cli import output
from app.cli.client import connected
from app.cli.completion import subscription_names
from app.cli.options import (
    ApiOption,
    JsonOption,
    LimitOption,
    SinceOption,
    TopicArgument,
    UntilOption,
)

_BODY_SHOWN_MAX: Final = 200
_PAGE_MAX: Final = 100


def messages(  # noqa: PLR0913 - each parameter is an option
    topic: TopicArgument,
    *,
    key: Annotated[str | None, typer.Option(help="Those with this Partition-Key.")] = None,
    path: Annotated[
        str | None, typer.Option(help="Those where this JSONPath finds --value: $.order.id.")
    ] = None,
    value: Annotated[
        str | None, typer.Option(help="The text of a string, or JSON as 42, true.")
    ] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: LimitOption = 100,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find messages in a topic's log, by key or by their content; default: in the last hour."""
    if key is None and path is None:
        raise typer.BadParameter("give one of them", param_hint="--key / --path")
    with connected(api) as client:
        every = client.messages.find(
            topic, key=key, path=path, value=value, since=since, until=until
        )
        found = list(islice(every, limit))
    if as_json:
        output.write_json([each.raw for each in found])
        return
    output.write_table(
        ["TIME", "MESSAGE", "KEY", "BODY"],
        [
            [
                output.local_time(each.published_at),
                each.message_id,
                each.key or "",
                _shortened(each.message),
            ]
            for each in found
        ],
    )


def undelivered(  # noqa: PLR0913 - each parameter is an option
    topic: TopicArgument,
    subscription: Annotated[
        str | None,
        typer.Argument(help="Only of this subscription.", autocompletion=subscription_names),
    ] = None,
    *,
    since: SinceOption = None,
    until: UntilOption = None,
    status: Annotated[
        int | None, typer.Option(min=100, max=599, help="The subscriber's last answer, as 404.")
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Part of the reason.")] = None,
    message_id: Annotated[str | None, typer.Option(help="Id of the message.")] = None,
    limit: LimitOption = 100,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """List discarded messages, newest first; `angelia retransmit` sends them again."""
    query = DiscardQuery(
        since=since,
        until=until,
        status=status,
        reason=reason,
        message_id=message_id,
        page_size=min(limit, _PAGE_MAX),
    )
    with connected(api) as client:
        found = list(islice(client.undelivered.all(topic, subscription, query=query), limit))
    if as_json:
        output.write_json([each.raw for each in found])
        return
    output.write_table(
        ["TIME", "MESSAGE", "SUBSCRIPTION", "REASON", "LAST FAILURE", "BODY"],
        [
            [
                output.local_time(each.discarded_at),
                each.message_id,
                each.subscription,
                each.reason,
                each.last_failure or "",
                _shortened(each.message),
            ]
            for each in found
        ],
    )


def _shortened(text: str) -> str:
    return text if len(text) <= _BODY_SHOWN_MAX else f"{text[:_BODY_SHOWN_MAX]}…"

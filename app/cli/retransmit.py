"""`angelia retransmit`: sends messages of a subscription again."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Annotated, Final

import typer

from angelia_client import Angelia, Redrive, Redriven
from app.cli import output
from app.cli.client import connected
from app.cli.options import (
    ApiOption,
    JsonOption,
    SinceOption,
    SubscriptionArgument,
    TopicArgument,
    UntilOption,
)
from app.cli.progress import counting

_DISCARDED: Final = "--discarded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Of which subscription, and how it is told."""

    topic: str
    subscription: str
    dry_run: bool
    as_json: bool


def retransmit(  # noqa: PLR0913 - each an option
    topic: TopicArgument,
    subscription: SubscriptionArgument,
    *,
    since: SinceOption = None,
    until: UntilOption = None,
    discarded: Annotated[
        bool, typer.Option(_DISCARDED, help="Only messages that were discarded in that time.")
    ] = False,
    status: Annotated[
        list[int] | None,
        typer.Option(min=100, max=599, help="Discarded upon this answer, as 404 (any number)."),
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Discarded for this: part of it.")] = None,
    message_id: Annotated[
        list[str] | None, typer.Option("--id", help="Discarded, with this id (any number).")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Discarded, and also if it was sent again before.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be sent.")
    ] = False,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send all again since a time, by moving the subscription back; or what was --discarded.

    Moving back (--since alone) sends all messages since then once more, delivered ones too.
    """
    asked = Asked(topic=topic, subscription=subscription, dry_run=dry_run, as_json=as_json)
    which = Redrive(
        since=since,
        until=until,
        status_codes=tuple(status or ()),
        reason=reason,
        message_ids=tuple(message_id or ()),
        again=again,
    )
    if discarded:
        with connected(api) as client:
            _redrive(client, asked, which)
        return
    if which != Redrive(since=since):
        raise typer.BadParameter(f"go with {_DISCARDED} alone", param_hint="--until and the like")
    if since is None:
        raise typer.BadParameter("give one of them", param_hint=f"--since / {_DISCARDED}")
    with connected(api) as client:
        _move(client, asked, since)


def _move(client: Angelia, asked: Asked, since: datetime) -> None:
    positions = client.subscriptions.retransmit(
        asked.topic, asked.subscription, since=since, dry_run=asked.dry_run
    )
    if asked.as_json:
        output.write_json([asdict(each) for each in positions])
        return
    verb = "would go on" if asked.dry_run else "goes on"
    output.say(f"{asked.subscription} {verb} at:")
    rows = [[each.partition, each.offset] for each in positions]
    output.write_table(["PARTITION", "OFFSET"], rows)


def _redrive(client: Angelia, asked: Asked, which: Redrive) -> None:
    if asked.dry_run:
        _foresee(client, asked, which)
        return
    sent = list[Redriven]()
    with counting("Sending again") as advance:
        for each in client.undelivered.redrive_all(asked.topic, asked.subscription, which=which):
            sent.append(each)
            advance(each.count)
    count = sum(each.count for each in sent)
    left = bool(sent) and sent[-1].more
    words = f"{count} messages are sent again" + (": there are more" if left else "")
    ids = [each.id for each in sent if each.id is not None]
    output.write_done(words, {"count": count, "ids": ids, "more": left}, as_json=asked.as_json)


def _foresee(client: Angelia, asked: Asked, which: Redrive) -> None:
    seen = client.undelivered.redrive(asked.topic, asked.subscription, which=which, dry_run=True)
    more = " (and more)" if seen.more else ""
    words = f"Would send {seen.count} messages{more}, {seen.bytes} bytes"
    output.write_done(words, seen.raw, as_json=asked.as_json)

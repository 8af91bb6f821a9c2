"""`angelia retransmit`: sends messages of a subscription again."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final

import typer

from angelia_client import Angelia, Redrive, Redriven, Replay
from app.cli import output
from app.cli.client import connected
from app.cli.commands.retransmissions import followed, report_end
from app.cli.options import (
    ApiOption,
    JsonOption,
    SinceOption,
    SubscriptionArgument,
    TopicArgument,
    UntilOption,
)
from app.cli.progress import counting


class OnlyOption(StrEnum):
    """The values of `--only`: which messages are sent again.

    Without this option, the subscription is moved back to the time `--since`. Then all messages
    from this time on are sent again.
    """

    DISCARDED = "discarded"
    UNDELIVERED = "undelivered"
    MISSING = "missing"
    ALL = "all"


# The options that may be used together with each value of `--only`. The options --since and
# --dry-run may always be used.
_TAKES: Final[Mapping[OnlyOption | None, frozenset[str]]] = {
    None: frozenset(),
    OnlyOption.DISCARDED: frozenset({"--until", "--status", "--reason", "--id", "--again"}),
    OnlyOption.UNDELIVERED: frozenset(
        {"--until", "--status", "--reason", "--id", "--key", "--share", "--rate", "--wait"}
    ),
    OnlyOption.MISSING: frozenset({"--until", "--id", "--key", "--share", "--rate", "--wait"}),
    OnlyOption.ALL: frozenset({"--until", "--id", "--key", "--share", "--rate", "--wait"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RetransmitTarget:
    """The subscription, the API, and the form of the output."""

    api: str | None
    topic: str
    subscription: str
    as_json: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Which messages are sent again, and how."""

    only: OnlyOption | None
    since: datetime | None
    until: datetime | None
    statuses: tuple[int, ...]
    reason: str | None
    message_ids: tuple[str, ...]
    keys: tuple[str, ...]
    again: bool
    share: float | None
    rate: float | None
    wait: bool
    dry_run: bool

    def options(self) -> Mapping[str, object]:
        """Return the values of all options that some values of `--only` do not allow."""
        return {
            "--until": self.until,
            "--status": self.statuses,
            "--reason": self.reason,
            "--id": self.message_ids,
            "--key": self.keys,
            "--again": self.again,
            "--share": self.share,
            "--rate": self.rate,
            "--wait": self.wait,
        }

    def as_redrive(self) -> Redrive:
        """Return the body of a request to the API: a redrive of discarded messages."""
        return Redrive(
            since=self.since,
            until=self.until,
            status_codes=self.statuses,
            reason=self.reason,
            message_ids=self.message_ids,
            again=self.again,
        )

    def as_replay(self) -> Replay:
        """Return the body of a request to the API: a retransmission, sent beside new messages."""
        return Replay(
            only=str(self.only),
            since=_since(self),
            until=self.until,
            status_codes=self.statuses,
            reason=self.reason,
            message_ids=self.message_ids,
            keys=self.keys,
            share=self.share,
            rate=self.rate,
            dry_run=self.dry_run,
        )


def retransmit(  # noqa: PLR0913 - each parameter is an option
    topic: TopicArgument,
    subscription: SubscriptionArgument,
    *,
    only: Annotated[
        OnlyOption | None,
        typer.Option(
            help="discarded: sent at once, from the list of `angelia undelivered`. The others:"
            " chosen by Spark, any number, sent beside new messages."
        ),
    ] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    status: Annotated[
        list[int] | None,
        typer.Option(min=100, max=599, help="Last answer before the discard, as 404 (repeatable)."),
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Part of the reason of the discard.")] = None,
    message_id: Annotated[
        list[str] | None, typer.Option("--id", help="Messages with this id (repeatable).")
    ] = None,
    key: Annotated[
        list[str] | None, typer.Option(help="Messages with this Partition-Key (repeatable).")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Also discarded messages that were sent again before.")
    ] = False,
    share: Annotated[
        float | None, typer.Option(min=0.01, max=1, help="Part of the subscription's rate.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(min=0.01, help="Messages per second, at most.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until all are sent.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be sent.")
    ] = False,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send all messages since a time again, by moving the subscription; or --only some messages.

    Moving the subscription (--since alone) sends all messages since then once more, before new
    ones. Messages that were delivered are sent again, too.
    """
    chosen = Chosen(
        only=only,
        since=since,
        until=until,
        statuses=tuple(status or ()),
        reason=reason,
        message_ids=tuple(message_id or ()),
        keys=tuple(key or ()),
        again=again,
        share=share,
        rate=rate,
        wait=wait,
        dry_run=dry_run,
    )
    _require_fitting(chosen)
    with connected(api) as client:
        _act(
            client,
            RetransmitTarget(api=api, topic=topic, subscription=subscription, as_json=as_json),
            chosen,
        )


def _require_fitting(chosen: Chosen) -> None:
    given = {name for name, value in chosen.options().items() if value}
    if unfit := sorted(given - _TAKES[chosen.only]):
        with_what = "--since alone" if chosen.only is None else f"--only {chosen.only}"
        raise typer.BadParameter(f"does not go with {with_what}", param_hint=", ".join(unfit))
    if chosen.only is not OnlyOption.DISCARDED:
        _since(chosen)


def _since(chosen: Chosen) -> datetime:
    if chosen.since is None:
        raise typer.BadParameter("must be given", param_hint="--since")
    return chosen.since


def _act(client: Angelia, target: RetransmitTarget, chosen: Chosen) -> None:
    if chosen.only is OnlyOption.DISCARDED:
        _redrive(client, target, chosen)
    elif chosen.only is None:
        _move(client, target, chosen)
    else:
        _replay(client, target, chosen)


def _move(client: Angelia, target: RetransmitTarget, chosen: Chosen) -> None:
    positions = client.subscriptions.retransmit(
        target.topic, target.subscription, since=_since(chosen), dry_run=chosen.dry_run
    )
    if target.as_json:
        output.write_json([asdict(each) for each in positions])
        return
    verb = "would go on" if chosen.dry_run else "goes on"
    output.write_text(f"{target.subscription} {verb} at:")
    rows = [[each.partition, each.offset] for each in positions]
    output.write_table(["PARTITION", "OFFSET"], rows)


def _replay(client: Angelia, target: RetransmitTarget, chosen: Chosen) -> None:
    begun = client.retransmissions.request(
        target.topic, target.subscription, which=chosen.as_replay()
    )
    if chosen.wait:
        ended = followed(target.api, target.topic, target.subscription, id_=begun.id)
        report_end(ended, as_json=target.as_json)
        return
    words = begun.waiting_for or f"Begun: {begun.id}"
    output.write_done(words, begun.raw, as_json=target.as_json)


def _redrive(client: Angelia, target: RetransmitTarget, chosen: Chosen) -> None:
    which = chosen.as_redrive()
    if chosen.dry_run:
        _foresee(client, target, which)
        return
    sent = list[Redriven]()
    with counting("Sending again") as advance:
        for each in client.undelivered.redrive_all(target.topic, target.subscription, which=which):
            sent.append(each)
            advance(each.count)
    count = sum(each.count for each in sent)
    left = bool(sent) and sent[-1].more
    words = f"{count} messages are sent again" + (": there are more" if left else "")
    ids = [each.id for each in sent if each.id is not None]
    output.write_done(words, {"count": count, "ids": ids, "more": left}, as_json=target.as_json)


def _foresee(client: Angelia, target: RetransmitTarget, which: Redrive) -> None:
    seen = client.undelivered.redrive(target.topic, target.subscription, which=which, dry_run=True)
    more = " (and more)" if seen.more else ""
    words = f"Would send {seen.count} messages{more}, {seen.bytes} bytes"
    output.write_done(words, seen.raw, as_json=target.as_json)

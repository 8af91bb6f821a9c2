"""`angelia analytics …`: reports of the results of Spark jobs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

import typer

from angelia_client import Angelia
from app.cli.client import connected
from app.cli.commands.jobs import SloOption, followed, require_done
from app.cli.completion import subscription_names, topic_names
from app.cli.options import (
    ApiOption,
    CsvOption,
    HtmlOption,
    JsonOption,
    SinceOption,
    UntilOption,
)
from app.cli.reports.analyses import (
    Answer,
    failures_report,
    latency_report,
    slo_report,
    undelivered_report,
)
from app.cli.reports.report import form_of
from app.cli.reports.writing import write_report

analytics = typer.Typer(
    no_args_is_help=True,
    help="Reports of what Spark found: undelivered messages, failures, latency, SLOs.",
)

TopicOption = Annotated[
    str | None, typer.Option("--topic", help="Only this topic.", autocompletion=topic_names)
]
SubscriptionOption = Annotated[
    str | None,
    typer.Option(
        "--subscription", help="Only this one of the topic's.", autocompletion=subscription_names
    ),
]
JobOption = Annotated[
    str | None, typer.Option("--job", help="Of this job; default: the last one that was done.")
]
WatchOption = Annotated[
    bool, typer.Option("--watch", help="Request a new job first, and show its progress.")
]
MostOption = Annotated[int, typer.Option("--limit", min=1, max=1_000, help="At most so many rows.")]

_NOTHING: Final[Mapping[str, Any]] = {}
_DISCARDS: Final = "UNDELIVERED_ANALYTICS"
_LATENCY: Final = "LATENCY_ANALYTICS"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """What a report is about: the result of an earlier job, or of a new job over a time span."""

    api: str | None
    job: str | None
    topic: str | None
    subscription: str | None = None
    since: datetime | None
    until: datetime | None
    watch: bool
    limit: int
    slo: float | None = None


@analytics.command()
def undelivered(  # noqa: PLR0913 - each parameter is an option
    *,
    by: Annotated[
        str, typer.Option(help="Count by these: topic, subscription, reason, status, hour.")
    ] = "reason,status",
    topic: TopicOption = None,
    subscription: SubscriptionOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    job: JobOption = None,
    watch: WatchOption = False,
    limit: MostOption = 100,
    api: ApiOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    as_html: HtmlOption = False,
) -> None:
    """Report how many messages were discarded, by reason, status and more."""
    form = form_of(as_json=as_json, as_csv=as_csv, as_html=as_html)
    wanted = _Wanted(
        api=api, job=job, topic=topic, subscription=subscription, since=since, until=until,
        watch=watch, limit=limit,
    )  # fmt: skip
    hours = {"from": since, "to": until}
    more = {"by": by, **{name: at.isoformat() for name, at in hours.items() if at is not None}}
    found = _found(wanted, _DISCARDS, lambda client: client.analytics.undelivered, more=more)
    write_report(undelivered_report(found), form)


@analytics.command()
def failures(  # noqa: PLR0913 - each parameter is an option
    *,
    topic: TopicOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    job: JobOption = None,
    watch: WatchOption = False,
    limit: MostOption = 100,
    api: ApiOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    as_html: HtmlOption = False,
) -> None:
    """Report discarded messages with the same error and the same form of payload."""
    form = form_of(as_json=as_json, as_csv=as_csv, as_html=as_html)
    wanted = _Wanted(
        api=api, job=job, topic=topic, since=since, until=until, watch=watch, limit=limit
    )
    _require_new_job(wanted)
    found = _found(wanted, _DISCARDS, lambda client: client.analytics.failures)
    write_report(failures_report(found), form)


@analytics.command()
def latency(  # noqa: PLR0913 - each parameter is an option
    *,
    topic: TopicOption = None,
    subscription: SubscriptionOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    job: JobOption = None,
    watch: WatchOption = False,
    limit: MostOption = 100,
    api: ApiOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    as_html: HtmlOption = False,
) -> None:
    """Report how long messages took to each subscription, and in which step."""
    form = form_of(as_json=as_json, as_csv=as_csv, as_html=as_html)
    wanted = _Wanted(
        api=api, job=job, topic=topic, subscription=subscription, since=since, until=until,
        watch=watch, limit=limit,
    )  # fmt: skip
    _require_new_job(wanted)
    found = _found(wanted, _LATENCY, lambda client: client.analytics.latency)
    write_report(latency_report(found), form)


@analytics.command()
def slo(  # noqa: PLR0913 - each parameter is an option
    *,
    seconds: SloOption = None,
    topic: TopicOption = None,
    subscription: SubscriptionOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    job: JobOption = None,
    watch: WatchOption = False,
    limit: MostOption = 100,
    api: ApiOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    as_html: HtmlOption = False,
) -> None:
    """Report what part of each subscription's messages was delivered within --slo seconds."""
    form = form_of(as_json=as_json, as_csv=as_csv, as_html=as_html)
    wanted = _Wanted(
        api=api, job=job, topic=topic, subscription=subscription, since=since, until=until,
        watch=watch, limit=limit, slo=seconds,
    )  # fmt: skip
    _require_new_job(wanted)
    found = _found(wanted, _LATENCY, lambda client: client.analytics.latency)
    write_report(slo_report(found), form)


Ask = Callable[[Angelia], Callable[[dict[str, Any]], Answer]]


def _found(wanted: _Wanted, kind: str, ask: Ask, *, more: Mapping[str, Any] = _NOTHING) -> Answer:
    """Return the result of a job from the API.

    If the caller wants a new job, request the job first, and wait until it has ended.
    """
    job = _made(wanted, kind) if wanted.watch else wanted.job
    given = {
        "job": job, "topic": wanted.topic, "subscription": wanted.subscription,
        "limit": wanted.limit,
    }  # fmt: skip
    query = {name: value for name, value in {**given, **more}.items() if value is not None}
    with connected(wanted.api) as client:
        return ask(client)(query)


def _made(wanted: _Wanted, kind: str) -> str:
    """Request a job, wait until it is done, and return its id."""
    if wanted.job is not None:
        raise typer.BadParameter("--watch requests a new job: give --job or --watch")
    with connected(wanted.api) as client:
        job = client.jobs.request(
            kind,
            start=wanted.since,
            end=wanted.until,
            topic=wanted.topic,
            subscription=wanted.subscription,
            slo=None if wanted.slo is None else timedelta(seconds=wanted.slo),
        )
    require_done(followed(wanted.api, job.id))
    return job.id


def _require_new_job(wanted: _Wanted) -> None:
    """Check that a time or time limit is given only for a new job. Earlier jobs cannot change."""
    given = {"--since": wanted.since, "--until": wanted.until, "--slo": wanted.slo}
    for name, value in given.items():
        if value is not None and not wanted.watch:
            raise typer.BadParameter(f"{name} is for a new job: give --watch, too")

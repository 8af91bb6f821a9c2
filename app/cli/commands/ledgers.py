"""`angelia ledger …`: what happened to every message for a subscription."""

from collections.abc import Iterator
from typing import Annotated, Final

import typer

from angelia_client import Ledger, LedgerEntry
from app.cli import output
from app.cli.client import connected
from app.cli.errors import CliError
from app.cli.options import (
    ApiOption,
    JsonOption,
    SinceOption,
    SubscriptionArgument,
    TopicArgument,
    UntilOption,
)

ledger = typer.Typer(
    no_args_is_help=True,
    help="Completeness ledgers: show what became of messages, add an entry, check the chain.",
)

_COLUMNS: Final = [
    "NO", "TO", "CARRIED", "PUBLISHED", "RESENT", "DELIVERED", "DISCARDED", "FILTERED",
    "UNFINISHED", "MISSING", "PROVED",
]  # fmt: skip


@ledger.command()
def show(
    topic: TopicArgument,
    subscription: SubscriptionArgument,
    *,
    since: SinceOption = None,
    until: UntilOption = None,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what happened to the messages of a time span.

    Default: 31 days up to the last midnight (UTC).

    Or up to the newest entry, if that is later.
    """
    with connected(api) as client:
        found = client.ledgers.get(topic, subscription, start=since, end=until)
    if as_json:
        output.write_json(found.raw)
    else:
        output.write_table(_COLUMNS, [_row(each) for each in found.entries])
        output.write_text("\n".join(conclusions(found)))


@ledger.command()
def request(
    topic: TopicArgument,
    subscription: SubscriptionArgument,
    *,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let Spark write an entry since the last one; wait for it with `angelia jobs wait`."""
    with connected(api) as client:
        job = client.ledgers.request(topic, subscription)
    output.write_done(job.waiting_for or f"Requested {job.id}", job.raw, as_json=as_json)


@ledger.command()
def check(
    topic: TopicArgument,
    subscription: SubscriptionArgument,
    *,
    number: Annotated[
        int | None, typer.Option(min=1, help="Number of an entry whose hash you kept.")
    ] = None,
    hash_: Annotated[str | None, typer.Option("--hash", help="That hash.")] = None,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check that no entry was changed since it was written; exits with 1 if one was."""
    with connected(api) as client:
        found = client.ledgers.check(topic, subscription, number=number, hash_=hash_)
    signed = f"Signed from entry {found.signed_from} on" if found.signed_from else "Not signed"
    words = f"{found.entries} entries are as they were written; the last has {found.hash}. {signed}"
    output.write_done(words, found.raw, as_json=as_json)
    if not found.intact:
        raise CliError(f"Entry {found.broken} is not as it was written: {found.reason}")


def conclusions(found: Ledger) -> Iterator[str]:
    """Yield what is proved about the requested time, and where missing messages are."""
    requested = f"{output.local_time(found.since)} to {output.local_time(found.until)}"
    proved = "is proved" if found.proved else f"is not proved ({', '.join(found.doubts)})"
    if found.covered_from is None:
        yield f"{requested} {proved}: there is no entry about it"
        return
    covered = f"{output.local_time(found.covered_from)} to {output.local_time(found.covered_to)}"
    yield (
        f"{requested} {proved}. {found.entry_count} entries, from {covered}:"
        f" {found.sums.published} published, {found.sums.missing} missing"
    )
    for entry in found.entries:
        if entry.sums.missing > 0:
            yield f"Entry {entry.number} misses {entry.sums.missing}, among {_places(entry)}"


def _places(entry: LedgerEntry) -> str:
    ranges = [
        f"offsets {each.offset} to before {each.to_offset} of partition {each.partition}"
        for each in entry.missing_among
    ]
    # Say so if there are no ranges: entries of older versions do not have them.
    known = ranges or ["offsets that are not known"]
    return ", ".join([*known, "and more"] if entry.missing_among_more else known)


def _row(entry: LedgerEntry) -> list[object]:
    sums = entry.sums
    return [
        entry.number,
        output.local_time(entry.until),
        sums.carried,
        sums.published,
        sums.resent,
        sums.delivered,
        sums.discarded,
        sums.filtered,
        sums.unfinished,
        sums.missing,
        "yes" if entry.proved else ", ".join(entry.doubts),
    ]

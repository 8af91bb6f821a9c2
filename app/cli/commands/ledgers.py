"""`angelia ledger …`: what happened to every message for a subscription."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from angelia_client import LedgerCheck
from app.cli import output
from app.cli.client import connected
from app.cli.commands.jobs import followed, require_done
from app.cli.errors import CliError
from app.cli.ledger_files import verified
from app.cli.options import (
    ApiOption,
    CsvOption,
    HtmlOption,
    JsonOption,
    SinceOption,
    SubscriptionArgument,
    TopicArgument,
    UntilOption,
)
from app.cli.reports.ledgers import COLUMNS, conclusions, ledger_report, row_of
from app.cli.reports.report import form_of
from app.cli.reports.writing import write_report
from app.domain.insight.ledger_chain import Check, KnownHash
from app.vault import HOW_TO_SET

ledger = typer.Typer(
    no_args_is_help=True,
    help="Completeness ledgers: show what became of messages, report, check, verify.",
)

NumberOption = Annotated[
    int | None, typer.Option(min=1, help="Number of an entry whose hash you kept.")
]
HashOption = Annotated[str | None, typer.Option("--hash", help="That hash.")]


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
        output.write_table(COLUMNS, [row_of(each) for each in found.entries])
        output.write_text("\n".join(conclusions(found)))


@ledger.command()
def report(  # noqa: PLR0913 - each parameter is an option
    topic: TopicArgument,
    subscription: SubscriptionArgument,
    *,
    since: SinceOption = None,
    until: UntilOption = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Write an entry up to now first, and show its progress.")
    ] = False,
    api: ApiOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    as_html: HtmlOption = False,
) -> None:
    """Report what happened to the messages: each entry, what is proved, and charts in HTML."""
    form = form_of(as_json=as_json, as_csv=as_csv, as_html=as_html)
    if watch:
        with connected(api) as client:
            job = client.ledgers.request(topic, subscription)
        require_done(followed(api, job.id))
    with connected(api) as client:
        found = client.ledgers.get(topic, subscription, start=since, end=until)
    write_report(ledger_report(found, name=f"{topic}/{subscription}"), form)


@ledger.command()
def request(
    topic: TopicArgument,
    subscription: SubscriptionArgument,
    *,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let Spark write an entry for the time since the last one.

    `angelia jobs wait` waits for it.
    """
    with connected(api) as client:
        job = client.ledgers.request(topic, subscription)
    output.write_done(job.waiting_for or f"Requested {job.id}", job.raw, as_json=as_json)


@ledger.command()
def check(
    topic: TopicArgument,
    subscription: SubscriptionArgument,
    *,
    number: NumberOption = None,
    hash_: HashOption = None,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check that no entry was changed or removed; exits with 1 if one was."""
    with connected(api) as client:
        found = client.ledgers.check(topic, subscription, number=number, hash_=hash_)
    anchored = f"Anchored up to entry {found.anchored}" if found.anchored else "Not anchored"
    output.write_done(f"{_intact(found)}. {anchored}", found.raw, as_json=as_json)
    _require_intact(found.broken, found.reason)


@ledger.command()
def export(
    topic: TopicArgument, subscription: SubscriptionArgument, *, api: ApiOption = None
) -> None:
    """Print all entries as they are stored, one JSON object a line, for `angelia ledger verify`."""
    with connected(api) as client:
        for entry in client.ledgers.exported(topic, subscription):
            output.write_json_line(entry.raw)


@ledger.command()
def keys(*, api: ApiOption = None, as_json: JsonOption = False) -> None:
    """Print the public keys of ledgers, in PEM; exits with 1 if there are none."""
    with connected(api) as client:
        found = client.ledgers.keys()
    if as_json:
        output.write_json([each.raw for each in found])
    elif not found:
        raise CliError(f"The service has no key that signs ledgers: {HOW_TO_SET}")
    else:
        output.write_text("".join(each.public_key for each in found).rstrip())


@ledger.command()
def verify(
    file: Annotated[Path, typer.Argument(help="What `angelia ledger export` printed.")],
    *,
    public_key: Annotated[
        Path, typer.Option(help="File with the public keys, as `angelia ledger keys` prints them.")
    ],
    number: NumberOption = None,
    hash_: HashOption = None,
    as_json: JsonOption = False,
) -> None:
    """Verify an exported ledger without the service; exits with 1 if an entry was changed.

    Do not take the public keys from the same source as the ledger.
    """
    if (number is None) != (hash_ is None):
        raise typer.BadParameter("--number and --hash belong together")
    known = None if number is None else KnownHash(number=number, hash=str(hash_).lower())
    found = verified(file, public_keys=public_key, known=known)
    result = {"intact": found.broken is None, "signed": found.is_signed, **asdict(found)}
    output.write_done(_intact(found), result, as_json=as_json)
    _require_intact(found.broken, found.reason)


def _intact(found: LedgerCheck | Check) -> str:
    signed = f"Signed from entry {found.signed_from} on" if found.signed_from else "Not signed"
    return f"{found.entries} entries are as they were written; the last has {found.hash}. {signed}"


def _require_intact(broken: int | None, reason: str | None) -> None:
    if broken is not None:
        raise CliError(f"Entry {broken} is not as it was written: {reason}")

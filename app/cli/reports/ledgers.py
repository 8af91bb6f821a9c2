"""The report of a ledger, and sentences about its result."""

from collections.abc import Iterator
from typing import Final

from angelia_client import Ledger, LedgerEntry
from app.cli import output
from app.cli.reports.report import Bar, BarChart, Report

COLUMNS: Final = (
    "NO", "TO", "CARRIED", "PUBLISHED", "RESENT", "DELIVERED", "DISCARDED", "FILTERED",
    "UNFINISHED", "MISSING", "PROVED",
)  # fmt: skip


def ledger_report(found: Ledger, *, name: str) -> Report:
    """Return the report of a ledger: a row for each entry."""
    bars = [
        Bar(
            label=f"{entry.number}, to {output.local_seconds(entry.until)}",
            values=[
                entry.sums.delivered, entry.sums.discarded, entry.sums.filtered,
                max(entry.sums.missing, 0),
            ],
        )
        for entry in found.entries
    ]  # fmt: skip
    series = ("delivered", "discarded", "filtered", "missing")
    return Report(
        title=f"Ledger of {name}",
        subtitle=f"{output.local_seconds(found.since)} to {output.local_seconds(found.until)}",
        columns=COLUMNS,
        rows=[row_of(entry) for entry in found.entries],
        conclusions=list(conclusions(found)),
        charts=[BarChart(title="What became of messages, by entry", series=series, bars=bars)],
        raw=found.raw,
    )


def conclusions(found: Ledger) -> Iterator[str]:
    """Yield sentences about a ledger.

    They say what is proved about the requested time, and among which offsets messages are missing.
    """
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
            yield f"Entry {entry.number} misses {entry.sums.missing}, among {_missing_among(entry)}"


def _missing_among(entry: LedgerEntry) -> str:
    ranges = [
        f"offsets {each.offset} to before {each.to_offset} of partition {each.partition}"
        for each in entry.missing_among
    ]
    # A ledger entry of an older version does not say where its missing messages are. The sentence
    # then says that the offsets are not known.
    known = ranges or ["offsets that are not known"]
    return ", ".join([*known, "and more"] if entry.missing_among_more else known)


def row_of(entry: LedgerEntry) -> list[object]:
    """Return the table row of an entry. Its values are in the order of `COLUMNS`."""
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

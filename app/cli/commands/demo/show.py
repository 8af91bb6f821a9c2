"""The output of the demonstration: bars on a terminal, lines elsewhere, a table at the end."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Table

from app.cli import output
from app.cli.commands.demo.accounting import Account

_PUBLISHED: Final = "published"
# How many lines of progress are printed if the output is not a terminal.
_LINES: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriberTally:
    """The progress of one subscriber."""

    name: str
    delivered: int
    retried: int
    discarded: int


Update = Callable[[int, Sequence[SubscriberTally]], None]


@contextmanager
def showing(total: int, names: Sequence[str]) -> Iterator[Update]:
    """Show the progress of the demo inside the block.

    Yield a function. The demo calls it with the number of published events, and with the progress
    of each subscriber.
    """
    if not output.out.is_terminal:
        yield _lines(total)
        return
    with _progress() as progress:
        yield _bars(progress, total, names)


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description:>10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        console=output.out,
    )


def _bars(progress: Progress, total: int, names: Sequence[str]) -> Update:
    published = progress.add_task(_PUBLISHED, total=total, note="")
    bars: dict[str, TaskID] = {
        name: progress.add_task(name, total=total, note="") for name in names
    }

    def update(count: int, tallies: Sequence[SubscriberTally]) -> None:
        progress.update(published, completed=count)
        for each in tallies:
            done = each.delivered + each.discarded
            progress.update(bars[each.name], completed=done, note=_note(each))

    return update


def _lines(total: int) -> Update:
    shown = -1

    def update(count: int, tallies: Sequence[SubscriberTally]) -> None:
        nonlocal shown
        done = min([count, *(each.delivered + each.discarded for each in tallies)])
        step = _LINES * done // total
        if step == shown:
            return
        shown = step
        parts = [f"{each.name}: {_note(each)}" for each in tallies]
        output.write_text(f"{_PUBLISHED} {count}/{total} | " + " | ".join(parts))

    return update


def _note(tally: SubscriberTally) -> str:
    return f"{tally.delivered} delivered, {tally.retried} retried, {tally.discarded} discarded"


def show_accounts(accounts: Sequence[Account]) -> None:
    """Show the final table, the reasons of discards, and what is not accounted for."""
    table = Table(title="What became of every message", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("subscriber", style="bold")
    for column in ("published", "delivered", "retries", "discarded", "missing", "duplicates"):
        table.add_column(column, justify="right", no_wrap=True)
    for each in accounts:
        table.add_row(each.subscriber, *_numbers(each))
    output.out.print(table)
    for each in accounts:
        for reason, count in each.discarded.items():
            output.write_text(f"{each.subscriber}: {count} discarded: {reason}")
        for problem in each.problems:
            output.write_text(f"{each.subscriber}: {problem}")


def _numbers(account: Account) -> list[str]:
    return [
        str(number)
        for number in (
            account.published,
            account.delivered,
            account.retries,
            sum(account.discarded.values()),
            account.missing,
            account.duplicates,
        )
    ]

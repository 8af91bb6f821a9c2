"""`angelia top`: shows the state of subscriptions, updated regularly."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Annotated, Final

import typer
from rich.live import Live
from rich.table import Table
from rich.text import Text

from angelia_client import (
    AsyncAngelia,
    ClientError,
    Subscription,
    SubscriptionMetrics,
)
from app.cli import output
from app.cli.async_client import connected_async
from app.cli.completion import topic_names
from app.cli.interrupt import run_until_signalled
from app.cli.options import ApiOption, Json, JsonOption

# What identifies a row of the table: the topic and the name of the subscription.
Key = tuple[str, str]

_COLUMNS: Final = (
    "SUBSCRIPTION",
    "STATE",
    "RATE/S",
    "LAG",
    "IN AIR",
    "RETRIES/S",
    "ERRORS/S",
    "UNDELIVERED",
    "MODE",
)
_GOOD_MODES: Final = frozenset({"NORMAL", ""})


class SortOrder(StrEnum):
    """The orders of the rows: by a number, the largest first, or by name from A to Z."""

    LAG = "lag"
    RATE = "rate"
    ERRORS = "errors"
    UNDELIVERED = "undelivered"
    NAME = "name"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopRow:
    """A subscription at one time; rates are per second."""

    topic: str
    subscription: str
    state: str
    rate: float
    lag: int
    inflight: int
    retries: float
    errors: float
    undelivered: int
    mode: str

    @classmethod
    def of(cls, subscription: Subscription, metrics: SubscriptionMetrics) -> "TopRow":
        """Return the row of a subscription."""
        broken = metrics.circuit in {"OPEN", "HALF_OPEN"}
        return cls(
            topic=subscription.topic,
            subscription=subscription.name,
            state=subscription.state,
            rate=metrics.rate,
            lag=metrics.lag,
            inflight=metrics.inflight,
            retries=metrics.retries,
            errors=metrics.codes_4xx + metrics.codes_5xx + metrics.timeouts + metrics.other_errors,
            undelivered=metrics.discarded,
            mode=f"circuit {metrics.circuit}" if broken else metrics.mode or "",
        )


_FIGURES: Final[Mapping[SortOrder, Callable[[TopRow], float]]] = {
    SortOrder.LAG: lambda row: row.lag,
    SortOrder.RATE: lambda row: row.rate,
    SortOrder.ERRORS: lambda row: row.errors,
    SortOrder.UNDELIVERED: lambda row: row.undelivered,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopView:
    """What the command shows, and how often.

    `every` is the number of seconds between two updates. If it is None, there is only one output.
    """

    topic: str | None
    order: SortOrder
    limit: int
    every: float | None
    as_json: bool


def top(
    *,
    topic: Annotated[
        str | None, typer.Option(help="Only this topic's.", autocompletion=topic_names)
    ] = None,
    order: Annotated[SortOrder, typer.Option("--sort", help="Largest first.")] = SortOrder.LAG,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many rows.")] = 30,
    every: Annotated[float, typer.Option(min=0.2, max=3600, help="Seconds between looks.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show subscriptions: rate, lag, errors, undelivered messages; until Ctrl-C.

    With --json each update is one line: a list of subscriptions.
    """
    shown = TopView(
        topic=topic,
        order=order,
        limit=limit,
        every=None if once else every,
        as_json=as_json,
    )
    run_until_signalled(_top(shown, api))


async def _top(shown: TopView, api: str | None) -> None:
    async with connected_async(api) as client:
        # If the first request fails, the command ends with the error. A later error may be
        # temporary, so the command then continues.
        first = await _rows(client, shown)
        if shown.as_json:
            await _write_lines(client, shown, first)
        elif shown.every is None:
            output.out.print(table_of(first, limit=shown.limit))
        else:
            await _live(client, shown, first)


async def _write_lines(client: AsyncAngelia, shown: TopView, first: Sequence[TopRow]) -> None:
    _write_line(first, shown)
    async for rows in _looks(client, shown):
        if not isinstance(rows, str):
            _write_line(rows, shown)


def _write_line(rows: Sequence[TopRow], shown: TopView) -> None:
    output.write_json_line([asdict(each) for each in rows[: shown.limit]])


async def _live(client: AsyncAngelia, shown: TopView, first: Sequence[TopRow]) -> None:
    seen = first
    table = table_of(seen, limit=shown.limit)
    with Live(table, console=output.out, auto_refresh=False, screen=output.out.is_terminal) as live:
        async for rows in _looks(client, shown):
            problem = rows if isinstance(rows, str) else ""
            seen = seen if isinstance(rows, str) else rows
            table = table_of(seen, limit=shown.limit, problem=problem)
            live.update(table, refresh=True)


async def _looks(client: AsyncAngelia, shown: TopView) -> AsyncIterator[Sequence[TopRow] | str]:
    """Yield the current rows regularly. If the API fails, yield a text with the reason instead."""
    while shown.every is not None:
        await asyncio.sleep(shown.every)
        yield await look(client, shown)


async def look(client: AsyncAngelia, shown: TopView) -> Sequence[TopRow] | str:
    """Return the current rows. If the API fails, return a text with the reason instead."""
    try:
        return await _rows(client, shown)
    except ExceptionGroup as group:
        if group.split(ClientError)[1]:
            raise
        # The requests run at the same time and fail for the same reason, so only one error is
        # shown.
        return str(group.exceptions[0])


async def _rows(client: AsyncAngelia, shown: TopView) -> Sequence[TopRow]:
    """Return a row for each subscription of the chosen topic, or of all topics, in order."""
    query = None if shown.topic is None else {"topicName": shown.topic}
    async with asyncio.TaskGroup() as group:
        requested = group.create_task(_subscriptions(client, query))
        figures = group.create_task(_metrics(client, query))
    subscriptions, metrics = requested.result(), figures.result()
    # A subscription that was created or deleted between the two requests is in only one of the two
    # answers. It is left out.
    known = sorted(subscriptions.keys() & metrics.keys())
    return in_order([TopRow.of(subscriptions[key], metrics[key]) for key in known], shown.order)


async def _subscriptions(client: AsyncAngelia, query: Json | None) -> Mapping[Key, Subscription]:
    return {(each.topic, each.name): each async for each in client.subscriptions.query(query)}


async def _metrics(client: AsyncAngelia, query: Json | None) -> Mapping[Key, SubscriptionMetrics]:
    every = client.subscriptions.query_metrics(query)
    return {(each.topic, each.name): each async for each in every}


def in_order(rows: Sequence[TopRow], order: SortOrder) -> Sequence[TopRow]:
    """Return the rows in the order `order`. Rows with equal values are ordered by name."""
    by_name = sorted(rows, key=lambda row: (row.topic, row.subscription))
    figure = _FIGURES.get(order)
    return by_name if figure is None else sorted(by_name, key=lambda row: -figure(row))


def table_of(rows: Sequence[TopRow], *, limit: int, problem: str = "") -> Table:
    """Return the rows as a table. A line below has the number of rows, and `problem`."""
    table = Table(box=None, pad_edge=False, header_style="bold", caption_justify="left")
    for column in _COLUMNS:
        words = column in {"SUBSCRIPTION", "STATE", "MODE"}
        table.add_column(column, justify="left" if words else "right", no_wrap=True)
    for row in rows[:limit]:
        table.add_row(*_cells(row))
    more = f"{len(rows)} subscriptions" + (f", {limit} shown" if len(rows) > limit else "")
    table.caption = Text(output.printable(f"{more}  {problem}"), style="red" if problem else "dim")
    return table


def _cells(row: TopRow) -> Sequence[Text]:
    name = output.printable(f"{row.topic}/{row.subscription}")
    return (
        Text(name),
        Text(row.state, style="" if row.state == "ACTIVE" else "yellow"),
        Text(f"{row.rate:,.1f}"),
        Text(f"{row.lag:,}"),
        Text(f"{row.inflight:,}"),
        Text(f"{row.retries:,.1f}", style="yellow" if row.retries else ""),
        Text(f"{row.errors:,.1f}", style="red" if row.errors else ""),
        Text(f"{row.undelivered:,}"),
        Text(row.mode, style="" if row.mode in _GOOD_MODES else "yellow"),
    )

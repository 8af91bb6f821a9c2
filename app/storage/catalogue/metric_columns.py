"""SQL that sums up the metrics of subscriptions and topics, for queries over metrics.

A rate is a sum of fractions, whose result depends slightly on the order of the addition. So the SQL
condition for a rate only leaves out rows that certainly do not match. Python checks the remaining
rows.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Double,
    Select,
    Subquery,
    TableValuedAlias,
    Text,
    case,
    cast,
    column,
    func,
    select,
)

from app.domain.catalogue.batching import DeliveryType
from app.domain.catalogue.query import Query, paths_of
from app.storage.catalogue.columns import Column, Columns, Of
from app.storage.catalogue.conditions import narrowed
from app.storage.tables import CursorRow, SubscriptionLoadRow, SubscriptionRow, TopicRow

_CURSORS: Final = {
    "lag": func.greatest(CursorRow.end - CursorRow.offset, 0),
    "delivered": CursorRow.delivered,
    "discarded": CursorRow.discarded,
    "filtered": CursorRow.filtered,
    "volume": CursorRow.volume,
}
# The rates in responses. For each rate, the counts in workers' reports whose sum gives the rate.
_RATES: Final[Mapping[str, tuple[str, ...]]] = {
    "rate": ("codes_2xx", "codes_4xx", "codes_5xx", "codes_other", "timeouts", "other_errors"),
    "throughput": ("bytes",),
    "timeouts": ("timeouts",),
    "otherErrors": ("other_errors",),
    "codes2xx": ("codes_2xx",),
    "codes4xx": ("codes_4xx",),
    "codes5xx": ("codes_5xx",),
    "retries": ("retries",),
}
# The rates of a topic in responses. For each of them, the rate of subscriptions that is summed up
# over the topic's subscriptions.
_TOPIC_RATES: Final = {"deliveryRate": "codes2xx", "throughput": "throughput"}
PUBLISHED: Final = "published"
# The numbers in responses that are sums over the last reports of all workers.
_COUNTS: Final = {
    "inflight": SubscriptionLoadRow.in_flight,
    "waitingRetries": SubscriptionLoadRow.waiting_retries,
}
_BATCH_RATE: Final = "batchRate"


class _Sums(NamedTuple):
    """A part of an SQL query that sums up some metrics.

    Attributes:
        names: The names of these metrics.
        summed: A function that makes this part of the query. It ignores reports about load that
            are older than its argument.
        columns: A function that returns the columns of these metrics.
    """

    names: frozenset[str]
    summed: Callable[[timedelta], Subquery]
    columns: Callable[[Subquery], Columns]


def of_subscriptions(
    statement: Select[*tuple[Any, ...]], query: Query, within: timedelta
) -> Select[*tuple[Any, ...]]:
    """Return the SQL statement over subscriptions with a condition for the query.

    The condition leaves out subscriptions that cannot match the query. Workers' reports about load
    are used only if they were made in the last time span `within`. Reports about cursors are always
    used.
    """
    row = SubscriptionRow
    columns = {"name": Column(row.name), "topicName": Column(row.topic)}
    for sums in _OF_SUBSCRIPTIONS:
        if sums.names & paths_of(query):
            summed = sums.summed(within)
            statement = statement.outerjoin(summed, summed.c.id == row.id)
            columns |= sums.columns(summed)
    return statement.where(narrowed(query, columns).where)


def of_topics(
    statement: Select[*tuple[Any, ...]],
    query: Query,
    within: timedelta,
    *,
    published: Mapping[str, int] | None = None,
) -> Select[*tuple[Any, ...]]:
    """Return the SQL statement over topics with a condition for the query.

    The condition leaves out topics that cannot match the query. `published` has the number of
    messages of each topic; None if the query does not need these numbers. Only those reports of
    workers are used that were made in the last time span `within`.
    """
    columns = {"name": Column(TopicRow.name)}
    if published is not None:
        known = _known(published)
        statement = statement.outerjoin(known, known.c.name == TopicRow.name)
        columns[PUBLISHED] = Column(known.c.published, Of.INTEGER)
    for sums in _OF_TOPICS:
        if sums.names & paths_of(query):
            summed = sums.summed(within)
            statement = statement.outerjoin(summed, summed.c.id == TopicRow.name)
            columns |= sums.columns(summed)
    return statement.where(narrowed(query, columns).where)


def rate_of(*counts: str) -> Any:  # noqa: ANN401 - any expression of SQLAlchemy
    """Return the SQL for the sum of these counts per second over the workers' reports.

    The value of this SQL is null if there are no reports.
    """
    row = SubscriptionLoadRow
    counted = [func.coalesce(cast(row.counts[each].astext, Double), 0) for each in counts]
    seconds = cast(func.extract("epoch", row.window), Double)
    return func.sum(sum(counted[1:], counted[0]) / func.nullif(seconds, 0))


def recent(within: timedelta) -> Any:  # noqa: ANN401 - any expression of SQLAlchemy
    """Return an SQL condition: a worker's report was made in the last time span `within`."""
    return SubscriptionLoadRow.seen_at > func.clock_timestamp() - within


def _cursor_sums(_within: timedelta) -> Subquery:
    sums = [cast(func.sum(each), BigInteger).label(name) for name, each in _CURSORS.items()]
    query = select(CursorRow.subscription_id.label("id"), *sums)
    return query.group_by(CursorRow.subscription_id).subquery("cursor_sums")


def _cursor_columns(sums: Subquery) -> Columns:
    return {name: Column(func.coalesce(sums.c[name], 0), Of.INTEGER) for name in _CURSORS}


def _load_sums(within: timedelta) -> Subquery:
    row = SubscriptionLoadRow
    rates = [rate_of(*counts).label(name) for name, counts in _RATES.items()]
    counts = [cast(func.sum(each), BigInteger).label(name) for name, each in _COUNTS.items()]
    query = select(row.subscription_id.label("id"), *counts, *rates).where(recent(within))
    return query.group_by(row.subscription_id).subquery("load_sums")


def _load_columns(sums: Subquery) -> Columns:
    rates = {name: Column(func.coalesce(sums.c[name], 0.0), Of.RATE) for name in _RATES}
    batched = SubscriptionRow.settings["delivery_type"].astext == DeliveryType.BATCH.value
    of_batches = case((batched, rates["rate"].sql), else_=0.0)
    return {
        **rates,
        _BATCH_RATE: Column(of_batches, Of.RATE),
        **{name: Column(func.coalesce(sums.c[name], 0), Of.INTEGER) for name in _COUNTS},
    }


def _topic_rate_sums(within: timedelta) -> Subquery:
    loads = SubscriptionLoadRow
    rates = [rate_of(*_RATES[of]).label(name) for name, of in _TOPIC_RATES.items()]
    query = select(SubscriptionRow.topic.label("id"), *rates).where(recent(within))
    query = query.join(loads, loads.subscription_id == SubscriptionRow.id)
    return query.group_by(SubscriptionRow.topic).subquery("topic_rates")


def _topic_rate_columns(sums: Subquery) -> Columns:
    return {name: Column(func.coalesce(sums.c[name], 0.0), Of.RATE) for name in _TOPIC_RATES}


def _subscription_counts(_within: timedelta) -> Subquery:
    topic = SubscriptionRow.topic
    count = func.count().label("subscriptions")
    return select(topic.label("id"), count).group_by(topic).subquery("subscription_counts")


def _subscription_count_columns(sums: Subquery) -> Columns:
    return {"subscriptions": Column(func.coalesce(sums.c.subscriptions, 0), Of.INTEGER)}


def _known(published: Mapping[str, int]) -> TableValuedAlias:
    """Return an SQL table of the numbers of messages in `published`."""
    names = cast(list(published), ARRAY(Text))
    counts = cast(list(published.values()), ARRAY(BigInteger))
    table = func.unnest(names, counts).table_valued(
        column("name", Text), column(PUBLISHED, BigInteger)
    )
    return table.render_derived(name="known")


_OF_SUBSCRIPTIONS: Final = (
    _Sums(frozenset(_CURSORS), _cursor_sums, _cursor_columns),
    _Sums(frozenset({*_RATES, _BATCH_RATE, *_COUNTS}), _load_sums, _load_columns),
)
_OF_TOPICS: Final = (
    _Sums(frozenset(_TOPIC_RATES), _topic_rate_sums, _topic_rate_columns),
    _Sums(frozenset({"subscriptions"}), _subscription_counts, _subscription_count_columns),
)

"""Reads the totals of all subscriptions over all workers, in one query."""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Final, NamedTuple

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.message import Partition

# Computes the totals of all subscriptions. The current ends of the log are used if they are known,
# otherwise the ends in the workers' last reports.
_TOTALS: Final = text("""
WITH ends AS (
       SELECT * FROM json_to_recordset(CAST(:ends AS json)) AS fresh (
              topic text, partition int, "end" bigint)),
     finished AS (
       SELECT cursors.subscription_id,
              sum(delivered)::bigint AS delivered, sum(discarded)::bigint AS discarded,
              sum(filtered)::bigint AS filtered, sum(volume)::bigint AS volume,
              sum(greatest(0, coalesce(ends."end", cursors."end") - "offset"))::bigint AS lag
         FROM cursors LEFT JOIN ends USING (topic, partition)
        GROUP BY cursors.subscription_id),
     doing AS (
       SELECT subscription_id, sum(in_flight)::bigint AS in_flight,
              sum(waiting_retries)::bigint AS waiting_retries,
              sum(CAST(counts->'output'->>'rate' AS float8)) AS rate,
              max(array_position(ARRAY['NORMAL', 'SLOW', 'HEARTBEAT'],
                                 counts->'output'->>'mode')) - 1 AS mode,
              max(array_position(ARRAY['CLOSED', 'HALF_OPEN', 'OPEN'],
                                 counts->'output'->'circuit'->>'state')) - 1 AS circuit
         FROM subscription_loads
        WHERE seen_at > clock_timestamp() - make_interval(secs => :within)
        GROUP BY subscription_id),
     looks AS (
       SELECT subscription_id, unhealthy, CAST(health->>'lag_time' AS float8) AS lag_seconds,
              CAST(health->>'drain' AS float8) AS drain_seconds,
              CAST(health->'losses'->0->>'at' AS float8)
                - CAST(extract(epoch FROM clock_timestamp()) AS float8) AS loss_seconds
         FROM subscription_health
        WHERE EXISTS (SELECT FROM leases WHERE name = :lease
                         AND renewed_at > clock_timestamp() - make_interval(secs => :looked))),
     short AS (
       SELECT subscription_id, missing FROM ledger_entries AS entry
        WHERE missing > 0 AND NOT EXISTS (
              SELECT FROM ledger_entries AS later
               WHERE later.subscription_id = entry.subscription_id
                 AND later.number > entry.number))
SELECT topic, name, state = 'SUSPENDED' AS suspended,
       coalesce(delivered, 0) AS delivered, coalesce(discarded, 0) AS discarded,
       coalesce(filtered, 0) AS filtered, coalesce(volume, 0) AS volume, coalesce(lag, 0) AS lag,
       coalesce(in_flight, 0) AS in_flight, coalesce(waiting_retries, 0) AS waiting_retries,
       rate, mode, circuit,
       unhealthy AND state <> 'SUSPENDED' AS unhealthy,
       lag_seconds, drain_seconds, loss_seconds, missing
  FROM subscriptions
  LEFT JOIN finished ON finished.subscription_id = subscriptions.id
  LEFT JOIN doing ON doing.subscription_id = subscriptions.id
  LEFT JOIN looks ON looks.subscription_id = subscriptions.id
  LEFT JOIN short ON short.subscription_id = subscriptions.id
 ORDER BY topic, name
""")


class SubscriptionTotals(NamedTuple):
    """One subscription: its lifetime counts, its lag, and its current load on workers.

    The last evaluation of the health gives `unhealthy` and all times in seconds. They are None
    without a recent evaluation.

    Attributes:
        volume: The delivered bytes.
        rate: The allowed requests per second; None if no worker reports a load.
        mode: 0 NORMAL, 1 SLOW, 2 HEARTBEAT: the worst on any worker; None as for `rate`.
        circuit: 0 CLOSED, 1 HALF_OPEN, 2 OPEN: the worst on any worker; None as for `rate`.
        unhealthy: Whether the subscription has problems.
        lag_seconds: The age of the oldest message that the subscription's cursors have not taken.
        drain_seconds: The time until the backlog ends; None if it never ends.
        loss_seconds: The time until the first messages are lost; None if none will be lost.
        missing: The missing messages of the last ledger entry; None if there are none.
    """

    topic: str
    name: str
    suspended: bool
    delivered: int
    discarded: int
    filtered: int
    volume: int
    lag: int
    in_flight: int
    waiting_retries: int
    rate: float | None
    mode: int | None
    circuit: int | None
    unhealthy: bool | None
    lag_seconds: float | None
    drain_seconds: float | None
    loss_seconds: float | None
    missing: int | None


class TotalsRepository:
    """Reads the totals of all subscriptions in one statement."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def subscriptions(
        self,
        ends: Mapping[Partition, int],
        *,
        within: timedelta,
        lease: str,
        looked_within: timedelta,
    ) -> list[SubscriptionTotals]:
        """Return the totals, ordered by topic and name.

        Args:
            ends: The current ends of partitions, up to which the lag is counted. For a partition
                that is not in `ends`, the end that its worker has reported is used.
            within: Reports of workers are ignored if they are older than this.
            lease: The lease of the process that evaluates the health.
            looked_within: The health is ignored if its last evaluation is older than this.
        """
        known = [{"topic": p.topic, "partition": p.index, "end": end} for p, end in ends.items()]
        bound = {
            "ends": json.dumps(known),
            "within": within.total_seconds(),
            "looked": looked_within.total_seconds(),
            "lease": lease,
        }
        rows = await self._session.execute(_TOTALS, bound)
        return [SubscriptionTotals(*row) for row in rows]

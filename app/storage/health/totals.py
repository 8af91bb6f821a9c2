"""Reads the totals of all subscriptions over all workers, in one query."""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Final, NamedTuple

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.message import Partition

# Computes the totals. The current ends of the log are used if known, otherwise those in the
# workers' last reports.
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

    `rate`, `mode` and `circuit` (0 is the best) are None if no worker reports a load. `missing` is
    from the last ledger entry, and None if no messages are missing. The other fields are from the
    last evaluation (`app.domain.health.subscription_health`), and None if there was none recently.
    `drain_seconds` is also None if the backlog never ends, and `loss_seconds` if nothing will be
    lost.
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
    """Reads all subscriptions in one statement."""

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
        """Return the totals, ordered by topic and name. The lag is measured up to `ends`, if known.

        Reports of workers count if they are from the last time span `within`. The health counts if
        the holder of `lease` evaluated it in the last time span `looked_within`.
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

"""Requests for retransmissions, and the job that chooses their messages.

Spark chooses messages. Here, a few lines choose the same ones: what the topic has at the time of
the request, without copies and without what the filters of the subscription do not want.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from app.domain.catalogue.subscription import Subscription
from app.domain.discards.undelivered import Undelivered
from app.domain.errors import AngeliaError
from app.domain.message import HEADER_ID, HEADER_TARGET, Partition, Record
from app.domain.replay.retransmission import MessageRun, RetransmissionState, dropping
from app.domain.replay.sending_rate import Sending
from app.log.interface import Bounds, MessageLog
from tests.simulation.history import ResendEnded, Resent
from tests.simulation.plan import Act
from tests.simulation.remote import Remote
from tests.simulation.simulated_sending import Row
from tests.simulation.virtual_loop import passes
from tests.simulation.world import World, keeps

# How long the job takes, in seconds.
JOB_S: Final = 0.8
# The maximum number of messages of a partition that are sent again: the newest ones.
NEWEST: Final = 12
# The rate of a request for `all at 2/s`.
SLOW: Final = 2.0


class Resends:
    """Requests retransmissions, as an operator and a Spark job do."""

    def __init__(self, world: World, log: MessageLog, database: Remote) -> None:
        self._world = world
        self._log = log
        self._database = database

    async def request(self, subscription: Subscription, act: Act) -> str:
        """Let workers send messages again; return the id of the retransmission.

        The id is empty if there is nothing to send, or if a service has a fault.
        """
        try:
            bounds = await self._log.bounds(await self._log.partitions(subscription.topic))
            await passes(JOB_S)
            return await self._database.call(lambda: self._add(subscription, act, bounds))
        except AngeliaError:
            return ""

    def cancelled(self, subscription: Subscription, sent_again: str) -> Subscription:
        """Return the subscription with a cancelled retransmission, unless this has ended."""
        row = self._world.resends.rows[sent_again]
        if row.state is not RetransmissionState.SENDING:
            return subscription
        return replace(subscription, dropped=dropping(subscription.dropped, sent_again))

    def _add(self, subscription: Subscription, act: Act, bounds: Mapping[Partition, Bounds]) -> str:
        runs = [*self._discards(subscription)]
        if act.to != "undelivered":
            runs = [run for each, bound in bounds.items() for run in self._chosen(each, bound)]
            if subscription.filters:
                runs = [run for run in runs if keeps(self._message(subscription.topic, run))]
        if not runs or subscription.id not in self._world.plane.subscriptions:
            return ""
        resends = self._world.resends
        sending = Sending(
            id=f"{len(resends.rows) + 1:032x}",
            attempt=1,
            subscription_id=subscription.id,
            topic=subscription.topic,
            share=act.amount,
            rate=SLOW if act.to == "all at 2/s" else None,
            matched=len(runs),
            begun={partition.index: bound.end for partition, bound in bounds.items()},
        )
        resends.rows[sending.id] = Row(sending, runs)
        self._note(sending, runs)
        return sending.id

    def _note(self, sending: Sending, runs: Sequence[MessageRun]) -> None:
        self._world.history.add(
            Resent(
                at=self._world.loop.time(),
                incarnation=sending.subscription_id,
                retransmission=int(sending.id, 16),
                chosen=tuple((run.partition, run.start) for run in runs),
                share=sending.share,
                rate_max=sending.rate,
            )
        )

    def _chosen(self, partition: Partition, bound: Bounds) -> Iterator[MessageRun]:
        """Yield the newest messages of a partition that were there at the request."""
        records = self._records(partition).values()
        wanted = [
            each
            for each in records
            if each.offset < bound.end and each.header(HEADER_TARGET) is None
        ]
        for each in wanted[-NEWEST:]:
            yield _run(partition.index, each.offset)

    def _discards(self, subscription: Subscription) -> Iterator[MessageRun]:
        """Yield the discards of a subscription that were not sent again."""
        resends = self._world.resends
        listed = self._world.plane.undelivered
        for each in sorted(listed, key=lambda each: (each.partition, each.offset)):
            place = subscription.id, each.partition, each.offset
            if each.subscription_id == subscription.id and place not in resends.marks:
                yield _run(each.partition, each.offset, self._numbered(each))

    def _numbered(self, discard: Undelivered) -> int:
        discards = self._world.resends.discards
        number = len(discards) + 1
        discards[number] = discard
        return number

    def _records(self, partition: Partition) -> Mapping[int, Record]:
        return {each.offset: each for each in self._world.log.stored[partition].records}

    def _message(self, topic: str, run: MessageRun) -> str:
        record = self._records(Partition(topic, run.partition))[run.start]
        return (record.header(HEADER_ID) or b"?").decode()


def _run(partition: int, offset: int, undelivered: int | None = None) -> MessageRun:
    return MessageRun(
        partition=partition,
        start=offset,
        end=offset + 1,
        messages=1,
        size=0,
        undelivered=undelivered,
    )


def resends_ended(world: World) -> Iterator[ResendEnded]:
    """Yield the state of each retransmission at the end."""
    for id_, row in world.resends.rows.items():
        cancelled = world.resends.is_cancelled(row)
        yield ResendEnded(
            at=world.loop.time(),
            incarnation=row.sending.subscription_id,
            retransmission=int(id_, 16),
            state="CANCELLED" if cancelled else row.state.value,
            written=row.written,
            finished=row.finished,
            marked=tuple(
                (partition, offset)
                for (_, partition, offset), by in world.resends.marks.items()
                if by == id_
            ),
        )

"""Simulations: what a subscription would have had to send, had it been another."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.domain.audit import Action, Change
from app.domain.filters import Filter
from app.domain.job import Job, JobKind, JobState, Scope
from app.domain.retransmission import Span
from app.domain.simulation import Minute, Proposal, SimulationRequest
from app.domain.subscription import Subscription
from app.log.interface import MessageLog
from app.services.audit import note
from app.services.jobs import RUNNER_LIVE_WITHIN, JobsSeen
from app.services.log_places import bounds_of, offsets_at
from app.storage.audit import AuditRepository
from app.storage.database import Database
from app.storage.jobs import JobRepository
from app.storage.simulations import SimulationRepository
from app.storage.spark_runners import SparkRunnerRepository
from app.storage.subscriptions import SubscriptionRepository


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be tried; None: as the subscription has it."""

    since: datetime
    until: datetime
    filters: tuple[Filter, ...] | None = None
    rate: int | None = None
    in_flight_max: int | None = None
    request_time: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSeen:
    """A simulation with its job as it stands, and the minutes of one that is done."""

    job: Job
    request: SimulationRequest
    minutes: Sequence[Minute]
    runner_live: bool


class SimulationService:
    """Each change is one transaction."""

    def __init__(self, database: Database, log: MessageLog) -> None:
        self._database = database
        self._log = log

    async def request(self, topic: str, name: str, wanted: Wanted) -> JobsSeen:
        """Have it done as soon as a runner is free, over what the log has now.

        TopicNotFoundError, SubscriptionNotFoundError, ValidationFailedError, JobQueueFullError,
        LogUnavailableError.
        """
        async with self._database.transaction() as session:
            known = await SubscriptionRepository(session).get(topic, name)
        request = SimulationRequest(
            since=wanted.since,
            until=wanted.until,
            spans=tuple(await self._spans(topic, wanted)),
            proposal=_proposal(known, wanted),
            present=known.filters,
        )
        scope = Scope(start=wanted.since, end=wanted.until, topic=topic, subscription=name)
        async with self._database.transaction() as session:
            job = await JobRepository(session).add(JobKind.SIMULATION, scope)
            await SimulationRepository(session).add(job, known, request)
            await note(AuditRepository(session), _change(job))
            live = await SparkRunnerRepository(session).any_live(RUNNER_LIVE_WITHIN)
        return JobsSeen(jobs=[job], runner_live=live)

    async def get(self, topic: str, name: str, *, job_id: str, limit: int) -> SimulationSeen:
        """One of the subscription's, with its fullest minutes, at most `limit`.

        TopicNotFoundError, SubscriptionNotFoundError, JobNotFoundError.
        """
        async with self._database.transaction() as session:
            known = await SubscriptionRepository(session).get(topic, name)
            simulations = SimulationRepository(session)
            request = await simulations.get(known.id, job_id)
            job = await JobRepository(session).get(job_id)
            done = job.state is JobState.DONE
            minutes = await simulations.minutes(job.claim, limit=limit) if done else []
            live = await SparkRunnerRepository(session).any_live(RUNNER_LIVE_WITHIN)
        return SimulationSeen(job=job, request=request, minutes=minutes, runner_live=live)

    async def _spans(self, topic: str, wanted: Wanted) -> Sequence[Span]:
        partitions = sorted(await self._log.partitions(topic))
        bounds = await bounds_of(self._log, partitions)
        starts = await offsets_at(self._log, partitions, wanted.since)
        ends = await offsets_at(self._log, partitions, wanted.until)
        spans = []
        for each in partitions:
            end = min(ends[each], bounds[each].end)
            start = min(starts[each], end)
            spans.append(Span(topic=topic, partition=each.index, start=start, end=end))
        return spans


def _proposal(known: Subscription, wanted: Wanted) -> Proposal:
    return Proposal(
        filters=known.filters if wanted.filters is None else wanted.filters,
        rate=wanted.rate or known.policy.rate,
        in_flight_max=wanted.in_flight_max or known.policy.in_flight_max,
        request_time=wanted.request_time,
    )


def _change(job: Job) -> Change:
    name = f"{job.scope.topic}/{job.scope.subscription}"
    return Change(action=Action.REQUESTED, kind="simulation", name=name, after={"id": job.id})

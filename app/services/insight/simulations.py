"""Simulations: what a subscription with other settings would have sent."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.domain.access.audit import Action, Change
from app.domain.catalogue.filters import Filter
from app.domain.catalogue.subscription import Subscription
from app.domain.insight.simulation import Differing, Minute, Proposal, SimulationRequest
from app.domain.job import Job, JobKind, JobScope, JobState
from app.log.interface import MessageLog
from app.services.access.audit import note
from app.services.filtered_headers import require_filter_headers
from app.services.insight.jobs import JobsSeen
from app.services.replay.spans import WantedSpans as Replayed
from app.services.replay.spans import spans_of_time
from app.storage.access.audit import AuditRepository
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.catalogue.topics import TopicRepository
from app.storage.database import Database
from app.storage.insight.jobs import JobRepository
from app.storage.insight.simulations import SimulationRepository
from app.storage.insight.spark_runners import SparkRunnerRepository


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedSimulation:
    """The settings that a simulation tries, and the time whose messages it uses.

    If a setting is None, the subscription's current setting is used.
    """

    since: datetime
    until: datetime
    filters: tuple[Filter, ...] | None = None
    rate: int | None = None
    in_flight_max: int | None = None
    request_time: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSeen:
    """A simulation with its job. `minutes` and `samples` are empty until the job is done."""

    job: Job
    request: SimulationRequest
    minutes: Sequence[Minute]
    samples: Sequence[Differing]
    runner_live: bool


class SimulationService:
    """Requests and reads simulations; each change is one transaction."""

    def __init__(self, database: Database, log: MessageLog) -> None:
        self._database = database
        self._log = log

    async def request(self, topic: str, name: str, wanted: WantedSimulation) -> JobsSeen:
        """Request a simulation of the messages that are in the log and the archive now.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
            ValidationFailedError: A value is not valid.
            JobQueueFullError: Too many jobs are waiting.
            LogUnavailableError: The log cannot be reached.
        """
        async with self._database.transaction() as session:
            known = await SubscriptionRepository(session).get(topic, name)
            if wanted.filters is not None:
                await require_filter_headers(wanted.filters, topic, TopicRepository(session))
        replayed = Replayed(since=wanted.since, until=wanted.until)
        # Find the offsets of the requested time that the log or the archive still has.
        spans, gone = await spans_of_time(self._database, self._log, topic=topic, wanted=replayed)
        request = SimulationRequest(
            since=wanted.since,
            until=wanted.until,
            spans=tuple(spans),
            gone=sum(gone),
            proposal=_proposal(known, wanted),
            present=known.filters,
        )
        scope = JobScope(start=wanted.since, end=wanted.until, topic=topic, subscription=name)
        async with self._database.transaction() as session:
            job = await JobRepository(session).add(JobKind.SIMULATION, scope)
            await SimulationRepository(session).add(job, known, request)
            await note(AuditRepository(session), _change(job))
            live = await SparkRunnerRepository(session).any_live()
        return JobsSeen(jobs=[job], runner_live=live)

    async def get(self, topic: str, name: str, *, job_id: str, limit: int) -> SimulationSeen:
        """Return the simulation of a job, with the `limit` minutes in which most messages waited.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
            JobNotFoundError: The job does not exist.
        """
        async with self._database.transaction() as session:
            known = await SubscriptionRepository(session).get(topic, name)
            simulations = SimulationRepository(session)
            request = await simulations.get(known.id, job_id)
            job = await JobRepository(session).get(job_id)
            done = job.state is JobState.DONE
            minutes = await simulations.minutes(job.claim, limit=limit) if done else []
            samples = await simulations.samples(job_id)
            live = await SparkRunnerRepository(session).any_live()
        return SimulationSeen(
            job=job, request=request, minutes=minutes, samples=samples, runner_live=live
        )


def _proposal(known: Subscription, wanted: WantedSimulation) -> Proposal:
    return Proposal(
        filters=known.filters if wanted.filters is None else wanted.filters,
        rate=wanted.rate or known.policy.rate,
        in_flight_max=wanted.in_flight_max or known.policy.in_flight_max,
        request_time=wanted.request_time,
    )


def _change(job: Job) -> Change:
    name = f"{job.scope.topic}/{job.scope.subscription}"
    return Change(action=Action.REQUESTED, kind="simulation", name=name, after={"id": job.id})

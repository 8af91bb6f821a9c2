"""Spark jobs, and their results."""

# Made from angelia_client/aio by `make client`: change it there.

import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import uuid4

from angelia_client.messages import Job
from angelia_client.requests import (
    Request,
    creating,
    escaped,
    get,
    subscription_path,
    time_text,
)
from angelia_client.sync.sending import Sender

_LOOK_EVERY: Final = timedelta(seconds=1)


class Jobs:
    """The methods of `client.jobs`."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def all(self, *, state: str | None = None) -> Iterator[Job]:
        """Yield jobs, newest first. If `state` is given, yield only jobs in that state."""
        for found in self._sender.listed(get("/jobs", {"state": state})):
            yield Job.of(found)

    def get(self, job_id: str) -> Job:
        """Return a job with the last lines of its log.

        Raises:
            NotFoundError: The job does not exist.
        """
        return Job.of(self._sender.json(get(_path(job_id))))

    def request(
        self,
        kind: str,
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        topic: str | None = None,
        subscription: str | None = None,
        slo: timedelta | None = None,
    ) -> Job:
        """Request a job about the time from `start` to `end`, by default about the last day.

        `slo` is the time limit for deliveries, only for a job of the kind LATENCY_ANALYTICS.
        """
        given = {
            "kind": kind,
            "from": None if start is None else time_text(start),
            "to": None if end is None else time_text(end),
            "topic": topic,
            "subscription": subscription,
            "sloSeconds": None if slo is None else slo.total_seconds(),
        }
        body = {name: value for name, value in given.items() if value is not None}
        return Job.of(self._sender.json(creating("/jobs", body, key=str(uuid4()))))

    def cancel(self, job_id: str) -> Job:
        """Cancel a job: immediately if it waits, within seconds if it runs."""
        return Job.of(self._sender.json(Request(method="DELETE", path=_path(job_id))))

    def follow(self, job_id: str, *, every: timedelta = _LOOK_EVERY) -> Iterator[Job]:
        """Yield the state of the job now, and then after each interval `every`.

        Stop when the job has ended. The last yielded state is the final one.
        """
        while not (job := self.get(job_id)).ended:
            yield job
            time.sleep(every.total_seconds())
        yield job


class Analytics:
    """The methods of `client.analytics`, which return the results of jobs in the API's JSON."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def undelivered(self, query: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return counts of discards.

        `query` may have these query parameters: by, job, topic, subscription, from, to, limit.
        """
        return dict(self._sender.json(get("/analytics/undelivered", query or {})))

    def failures(self, query: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return groups of discards with the same error and form of payload.

        `query` may have these query parameters: job, topic, limit.
        """
        return dict(self._sender.json(get("/analytics/failures", query or {})))

    def latency(self, query: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return how long messages took to their subscribers.

        `query` may have these query parameters: job, topic, subscription, limit.
        """
        return dict(self._sender.json(get("/analytics/latency", query or {})))

    def simulate(
        self, topic: str, subscription: str, *, proposal: Mapping[str, Any] | None = None
    ) -> Job:
        """Request a simulation: what a subscription with other settings would have sent.

        `proposal` has the other settings, as a request body of the API (openapi.yaml).
        """
        path = f"{subscription_path(topic, subscription)}/simulate"
        body = dict(proposal or {})
        return Job.of(self._sender.json(creating(path, body, key=str(uuid4()))))

    def simulation(self, topic: str, subscription: str, *, id_: str) -> dict[str, Any]:
        """Return a simulation with its result, as a JSON object of the API.

        `id_` is the id of the simulation's job.

        Raises:
            NotFoundError: The simulation does not exist.
        """
        path = f"{subscription_path(topic, subscription)}/simulations/{escaped(id_)}"
        return dict(self._sender.json(get(path)))


def _path(job_id: str) -> str:
    return f"/jobs/{escaped(job_id)}"

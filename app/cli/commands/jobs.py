"""`angelia jobs …`: requests for Spark jobs."""

from datetime import timedelta
from itertools import islice
from typing import Annotated, Final

import typer

from angelia_client import Job
from app.cli import output
from app.cli.client import WAITING, connected
from app.cli.completion import subscription_names, topic_names
from app.cli.errors import CliError
from app.cli.options import ApiOption, JsonOption, LimitOption, SinceOption, UntilOption
from app.cli.progress import filling

jobs = typer.Typer(
    no_args_is_help=True, help="Jobs for Spark: list, request, show, wait for, cancel."
)

_DONE: Final = "DONE"
_SUMMARY: Final = ["ID", "KIND", "STATE", "DONE", "REQUESTED", "WHAT"]

SloOption = Annotated[
    float | None,
    typer.Option(
        "--slo",
        min=0.001,
        max=604_800,
        metavar="SECONDS",
        help="LATENCY_ANALYTICS: the SLO, from publication to delivery.",
    ),
]
JobArgument = Annotated[str, typer.Argument(help="Id of the job, as listed.")]


@jobs.command("list")
def list_jobs(
    *,
    state: Annotated[
        str | None, typer.Option(help="REQUESTED, RUNNING, DONE, CANCELLED or FAILED.")
    ] = None,
    limit: LimitOption = 100,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """List jobs, newest first."""
    with connected(api) as client:
        found = list(islice(client.jobs.all(state=state), limit))
    if as_json:
        output.write_json([each.raw for each in found])
    else:
        output.write_table(_SUMMARY, [_row(each) for each in found])


@jobs.command()
def request(  # noqa: PLR0913 - each parameter is an option
    kind: Annotated[
        str,
        typer.Argument(help="What to do: UNDELIVERED_ANALYTICS, LATENCY_ANALYTICS, or ARCHIVE."),
    ],
    *,
    since: SinceOption = None,
    until: UntilOption = None,
    topic: Annotated[
        str | None, typer.Option(help="Only this topic.", autocompletion=topic_names)
    ] = None,
    subscription: Annotated[
        str | None,
        typer.Option(help="Only this one of the topic's.", autocompletion=subscription_names),
    ] = None,
    slo: SloOption = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it has ended.")] = False,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Request a job over a time span; default: the last day."""
    with connected(api) as client:
        requested = client.jobs.request(
            kind,
            start=since,
            end=until,
            topic=topic,
            subscription=subscription,
            slo=None if slo is None else timedelta(seconds=slo),
        )
    job = followed(api, requested.id) if wait else requested
    words = _ending(job) if wait else job.waiting_for or f"Requested {job.id}"
    output.write_done(words, job.raw, as_json=as_json)
    if wait:
        require_done(job)


@jobs.command()
def show(job: JobArgument, *, api: ApiOption = None, as_json: JsonOption = False) -> None:
    """Show a job: its state, its progress, its result, and the last lines of its log."""
    with connected(api) as client:
        found = client.jobs.get(job)
    output.write_object(found.raw, as_json=as_json)


@jobs.command()
def wait(job: JobArgument, *, api: ApiOption = None, as_json: JsonOption = False) -> None:
    """Wait until a job has ended. Exits with 1 if the job failed or was cancelled."""
    with connected(api) as client:
        client.jobs.get(job)
    ended = followed(api, job)
    output.write_done(_ending(ended), ended.raw, as_json=as_json)
    require_done(ended)


@jobs.command()
def cancel(job: JobArgument, *, api: ApiOption = None, as_json: JsonOption = False) -> None:
    """Cancel a job: immediately if it waits, within seconds if it runs."""
    with connected(api) as client:
        cancelled = client.jobs.cancel(job)
    words = f"Cancelling {job}" if cancelled.cancelling else f"Cancelled {job}"
    output.write_done(words, cancelled.raw, as_json=as_json)


def followed(api: str | None, job_id: str) -> Job:
    """Show the progress of a job until the job has ended. Return the ended job."""
    with connected(api, retries=WAITING) as client, filling(job_id) as update:
        for job in client.jobs.follow(job_id):
            update(job.progress, job.step or job.waiting_for or job.state)
            if job.ended:
                return job
    raise CliError(f"Nothing is heard of {job_id} any more")


def _ending(job: Job) -> str:
    counts = ", ".join(f"{name} {count}" for name, count in job.counts.items())
    return f"{job.id} is {job.state}" + (f": {counts}" if counts else "")


def require_done(job: Job) -> None:
    """Check that an ended job has the state DONE.

    Raises:
        CliError: The job failed, or was cancelled.
    """
    if job.state != _DONE:
        raise CliError(job.reason or f"The job was not done: it is {job.state}")


def _row(job: Job) -> list[object]:
    where = "/".join(each for each in (job.scope.topic, job.scope.subscription) if each)
    return [
        job.id,
        job.kind,
        job.state,
        f"{job.progress:.0%}",
        output.local_seconds(job.requested_at),
        where or "all topics",
    ]

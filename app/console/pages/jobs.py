"""The pages of Spark jobs: the list, one job with its log, and the form for a new job."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.console.api import ApiRefusedError, Call, call_of, path_of
from app.console.edits import filled_body
from app.console.forms import (
    NO_PROBLEMS,
    Field,
    Problems,
    body_of,
    decimal,
    problems_in,
    without_nulls,
)
from app.console.open_jobs import OPEN
from app.console.paging import next_after
from app.console.view import PAGE_SIZE, PageRoute, PageView, Redirect, Result, ShownPage, first_of

STATES: Final = ("", "REQUESTED", "RUNNING", "DONE", "CANCELLED", "FAILED")
FIELDS: Final[Sequence[Field]] = (
    Field(
        path="kind",
        label="What it does",
        kind="choice",
        choices=("UNDELIVERED_ANALYTICS", "LATENCY_ANALYTICS", "ARCHIVE"),
        hint="Why messages were not delivered, how long deliveries took, or a copy of all that is"
        " new in the archive.",
    ),
    Field(
        path="topic",
        label="Only this topic",
        optional=True,
        hint="Jobs about all topics need an admin's key.",
    ),
    Field(path="subscription", label="Only this subscription", optional=True),
    Field(path="from", label="From", optional=True, hint="Such as 2026-01-31T00:00:00Z."),
    Field(path="to", label="To", optional=True, hint="Now, if it is empty."),
    Field(
        path="sloSeconds",
        label="Delivered within",
        unit="seconds",
        kind="number",
        read=decimal,
        optional=True,
        hint="Latency only: the job then counts the messages that were there in time.",
    ),
)
_PATHS: Final = tuple(each.path for each in FIELDS)
# The fields of the form whose values may be in the URL of a link to the form.
_GIVEN: Final = ("kind", "topic", "subscription", "from")


async def show(view: PageView) -> ShownPage:
    """Show a page of the list of jobs, the newest first.

    If the reader has chosen a state, only jobs in this state are shown.
    """
    state = first_of(view.query, "state", STATES)
    after = view.query.get("after")
    query = {"limit": PAGE_SIZE, "after": after, "state": state or None}
    answer = await view.api.call("GET", "/jobs", query=query)
    return ShownPage(
        template="jobs.html",
        title="Jobs",
        section="jobs",
        context={
            "jobs": answer.body,
            "after": next_after(answer),
            "is_first": after is None,
            "state": state,
            "states": STATES,
            "may_request": (await view.rights()).create,
        },
        live={"jobs": "jobs_table.html"},
    )


async def show_job(view: PageView) -> ShownPage:
    """Show one job."""
    job = await view.api.get(path_of("jobs", view.params["job"]))
    topic = job["scope"].get("topic")
    rights = await view.rights(topic)
    may_cancel = job["state"] in OPEN and (rights.topic if topic else rights.admin)
    return ShownPage(
        template="job.html",
        title=f"Job {job['id']}",
        section="jobs",
        context={
            "job": job,
            "results": _results(view, job) if job["state"] == "DONE" else (),
            "may_cancel": may_cancel,
        },
        forms=[cancellation(job["id"])] if may_cancel else (),
        live={"job": "job_state.html"},
    )


def _results(view: PageView, job: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """Return the pages with the results of the job: the title and the link of each page."""
    topic, name = job["scope"].get("topic", ""), job["scope"].get("subscription", "")
    match job["kind"]:
        case "UNDELIVERED_ANALYTICS":
            return (
                ("Failures in clusters", view.link("analytics", job=job["id"])),
                ("Counts", view.link("analytics", "counts", job=job["id"])),
            )
        case "LATENCY_ANALYTICS":
            return (("Latency", view.link("analytics", "latency", job=job["id"])),)
        case "SIMULATION":
            page = view.link.subscription(topic, name, "simulate", id=job["id"])
            return (("The simulation", page),)
        case "LEDGER":
            return (("The ledger", view.link.subscription(topic, name, "ledger")),)
        case "RETRANSMISSION":
            return (("Send again", view.link.subscription(topic, name, "resend")),)
        case _:
            return ()


async def cancel(view: PageView) -> Result:
    """Cancel the job."""
    await view.api.run(cancellation(view.params["job"]))
    return Redirect(to=view.link("jobs", view.params["job"], done="cancelled"))


def cancellation(job: str) -> Call:
    """Return the request that cancels a job."""
    return call_of("DELETE", path_of("jobs", job))


async def show_new(view: PageView) -> ShownPage:
    """Show the form for a new job."""
    given = {name: view.query.get(name) for name in _GIVEN}
    return await _form(view, given, NO_PROBLEMS)


async def request(view: PageView) -> Result:
    """Request a job, and redirect to the page of the new job."""
    body = without_nulls(body_of(FIELDS, view.form))
    try:
        answer = await view.api.send("POST", "/jobs", body)
    except ApiRefusedError as error:
        return await _form(view, body, problems_in(error, _PATHS), status=error.status)
    return Redirect(to=view.link("jobs", answer.body["id"], done="requested"))


async def _form(
    view: PageView, current: Mapping[str, Any], problems: Problems, *, status: int = 200
) -> ShownPage:
    may_request = (await view.rights()).create
    requested = call_of("POST", "/jobs", filled_body(FIELDS, current))
    return ShownPage(
        template="job_new.html",
        title="New job",
        section="jobs",
        status=status,
        context={
            "fields": FIELDS,
            "current": current,
            "problems": problems,
            "may_request": may_request,
        },
        forms=[requested] if may_request else (),
    )


ROUTES: Final[Sequence[PageRoute]] = (
    PageRoute(path="/jobs", show=show),
    PageRoute(path="/jobs/{job}", show=show_job),
    PageRoute(path="/jobs/{job}/cancel", submit=cancel),
    PageRoute(path="/new-job", show=show_new, submit=request),
)

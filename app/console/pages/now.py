"""The first page, *Now*: subscriptions that need a person, the most urgent first; jobs; workers."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

from app.console.api import Call, call_of, gathered, path_of
from app.console.open_jobs import open_jobs
from app.console.pages.subscription_form import RATE
from app.console.urgency import AttentionCase, FittingAction, cases, whole_rate
from app.console.view import PageRoute, PageView, ShownPage

# The maximum number of subscriptions that the page shows. If more subscriptions need a person, the
# page says how many more there are.
CASES_MAX: Final = 30
_JOBS_MAX: Final = 10


async def show(view: PageView) -> ShownPage:
    """Show subscriptions with alerts or problems, jobs that wait or run, and all workers."""
    alerts, unhealthy, workers, stats, jobs = await gathered(
        view.api.get("/alerts", {"limit": 1000}),
        view.api.get("/unhealthy", {"respectMonitoringSeverity": "false"}),
        view.api.get("/workers"),
        view.api.get("/stats"),
        open_jobs(view.api, _JOBS_MAX),
    )
    found = cases(alerts, unhealthy, datetime.now(UTC))
    offered = [await _offered(view, case) for case in found[:CASES_MAX]]
    resumable = [each["case"] for each in offered if each["resume"]]
    return ShownPage(
        template="now.html",
        title="Now",
        section="now",
        context={
            "cases": offered,
            "more": max(0, len(found) - CASES_MAX),
            "jobs": jobs,
            "workers": workers,
            "topics": stats["topicStats"]["topicCount"],
            "subscriptions": stats["subscriptionStats"]["subscriptionCount"],
            "may_create": (await view.rights()).create,
        },
        live={"attention": "now_attention.html", "work": "now_work.html"},
        forms=[_resumption(case) for case in resumable[:1]],
    )


async def _offered(view: PageView, case: AttentionCase) -> Mapping[str, Any]:
    """Return what the page offers for a subscription that needs a person.

    The result has a link to the page where the problem is solved. `resume` says whether the reader
    can instead resume the subscription here, on the page *Now*.
    """
    topic, name = case.topic, case.name
    links: Mapping[FittingAction, tuple[str, str]] = {
        FittingAction.RAISE: (
            "Raise the rate",
            view.link.subscription(topic, name, "edit", why="loss", fill=_rate_of(case)),
        ),
        FittingAction.ERRORS: (
            "Look at the errors",
            f"{view.link.subscription(topic, name)}#errors",
        ),
        FittingAction.LEDGER: (
            "Look at the ledger",
            view.link.subscription(topic, name, "ledger"),
        ),
        FittingAction.UNDELIVERED: (
            "Look at what was discarded",
            view.link.subscription(topic, name, "undelivered"),
        ),
        FittingAction.SECRETS: ("Renew it", view.link.subscription(topic, name, "secrets")),
        FittingAction.CERTIFICATES: (
            "Renew it",
            view.link.subscription(topic, name, "certificates"),
        ),
        FittingAction.LOOK: ("Look at it", view.link.subscription(topic, name)),
    }
    resumes = case.action is FittingAction.RESUME
    may_resume = resumes and (await view.rights(topic, name)).subscription
    label, link = links.get(case.action, links[FittingAction.LOOK])
    return {"case": case, "resume": may_resume, "label": label, "href": link}


def _resumption(case: AttentionCase) -> Call:
    path = path_of("topics", case.topic, "subscriptions", case.name, "state")
    return call_of("PUT", path, "ACTIVE")


def _rate_of(case: AttentionCase) -> str:
    """Return the value of the link's parameter `fill`: the rate that the case needs."""
    return "" if case.rate_needed is None else urlencode({RATE: whole_rate(case.rate_needed)})


ROUTES: Final[Sequence[PageRoute]] = (PageRoute(path="/", show=show),)

"""The page of a subscription: its state, its rate with the reason, partitions, and last errors."""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from app.console import words
from app.console.api import ApiRefusedError, Call, call_of, gathered
from app.console.histories import subscription_charts
from app.console.pages.subscription_form import FIELDS
from app.console.prefill import undo_edit
from app.console.view import PageRoute, PageView, Redirect, Result, ShownPage, Undo

_ERRORS_MAX: Final = 5
# If more than this fraction of the attempts fail, the page shows a warning, even if health has
# found no problem.
_FAILING_MUCH: Final = 0.1
_STATES: Final[Mapping[str, str]] = {"suspend": "SUSPENDED", "resume": "ACTIVE"}


async def show(view: PageView) -> ShownPage:
    """Show the page of a subscription."""
    return await _page(view)


async def _page(view: PageView, pong: Mapping[str, Any] | None = None) -> ShownPage:
    path = view.subscription_path
    settings, metrics, health, forecast, groups, retries, errors, (span, history) = await gathered(
        view.api.get(path),
        view.api.get(f"{path}/metrics"),
        view.api.get(f"{path}/health"),
        view.api.get(f"{path}/forecast"),
        view.api.find(f"{path}/consumer-groups"),
        # Only owners, and keys with the scope `read`, may see messages that failed. Other readers
        # get the page without them.
        view.api.find(f"{path}/retries"),
        view.api.find(f"{path}/undelivered", {"limit": _ERRORS_MAX}),
        view.history(path),
    )
    policy = settings["subscriptionPolicy"]
    rights = await view.rights(view.topic, view.name)
    other = "ACTIVE" if settings["state"] == "SUSPENDED" else "SUSPENDED"
    return ShownPage(
        template="subscription.html",
        title=view.name,
        section="topics",
        context={
            "topic": view.topic,
            "name": view.name,
            "settings": settings,
            "policy": policy,
            "metrics": metrics,
            "health": health,
            "forecast": forecast,
            "pace": words.pace(metrics, policy, settings["state"], now=time.time()),
            "tone": _tone(metrics, settings["state"]),
            "outcomes": _outcomes(metrics),
            "partitions": partitions_of(groups),
            "retries": (retries or ())[:_ERRORS_MAX],
            "errors": errors,
            "pong": pong,
            "span": span,
            "charts": subscription_charts(history) if history else (),
            "rights": rights,
        },
        forms=[_state_change(view, other), ping_of(view)] if rights.subscription else (),
        undo=_undo(view, settings) if rights.subscription else None,
        live={
            "state": "subscription_state.html",
            "partitions": "subscription_partitions.html",
            "errors": "subscription_errors.html",
        },
    )


async def set_state(view: PageView) -> Result:
    """Suspend or resume the subscription. The form field `do` says which of both."""
    state = _STATES.get(view.form["do"])
    if state is None:
        raise ApiRefusedError(400, "do must be suspend or resume")
    await view.api.run(_state_change(view, state))
    done = "suspended" if state == "SUSPENDED" else "resumed"
    return Redirect(to=view.link.subscription(view.topic, view.name, done=done))


async def ping(view: PageView) -> Result:
    """Send a test message to the endpoint, and show the endpoint's answer on the page."""
    answer = await view.api.run(ping_of(view))
    return await _page(view, pong=answer.body)


def _state_change(view: PageView, state: str) -> Call:
    return call_of("PUT", f"{view.subscription_path}/state", state)


def ping_of(view: PageView) -> Call:
    """Return the request that sends a test message to the endpoint."""
    return call_of("POST", f"{view.subscription_path}/ping")


async def show_delete(view: PageView) -> ShownPage:
    """Show what the deletion would do, and ask for the subscription's name as a confirmation."""
    return await _delete_page(view)


async def delete(view: PageView) -> Result:
    """Delete the subscription if the reader has entered its name."""
    if view.form["confirmed"].strip() != view.name:
        return await _delete_page(view, problem=f"Enter {view.name} to delete it.")
    await view.api.run(_deletion(view))
    return Redirect(to=view.link.topic(view.topic, done="deleted"))


def _deletion(view: PageView) -> Call:
    return call_of("DELETE", view.subscription_path)


async def _delete_page(view: PageView, problem: str = "") -> ShownPage:
    rights = await view.rights(view.topic, view.name)
    return ShownPage(
        template="subscription_delete.html",
        title=f"Delete {view.name}",
        section="topics",
        status=400 if problem else 200,
        context={
            "topic": view.topic,
            "name": view.name,
            "settings": await view.api.get(view.subscription_path),
            "metrics": await view.api.get(f"{view.subscription_path}/metrics"),
            "rights": rights,
            "problem": problem,
        },
        forms=[_deletion(view)] if rights.subscription else (),
    )


def _undo(view: PageView, settings: Mapping[str, Any]) -> Undo | None:
    """Return what takes back the reader's last action, if its effect is still there."""
    done, suspended = view.query.get("done"), settings["state"] == "SUSPENDED"
    page = partial(view.link.subscription, view.topic, view.name)
    if done == "suspended" and suspended:
        return Undo(to=page("state"), do="resume")
    if done == "resumed" and not suspended:
        return Undo(to=page("state"), do="suspend")
    return undo_edit(FIELDS, settings, query=view.query, form=page)


def _tone(metrics: Mapping[str, Any], state: str) -> str:
    """Return the CSS class for the subscription's state: calm, warn or good."""
    if state != "ACTIVE":
        return "calm"
    return "warn" if words.failing(metrics) > _FAILING_MUCH else "good"


def _outcomes(metrics: Mapping[str, Any]) -> Sequence[tuple[str, float, str]]:
    """Return each outcome of attempts, with its attempts per second and its CSS class."""
    return (
        ("accepted", metrics["codes2xx"], "good"),
        ("4xx", metrics["codes4xx"], "warn"),
        ("5xx", metrics["codes5xx"], "bad"),
        ("timeouts", metrics["timeouts"], "bad"),
        ("no connection", metrics["otherErrors"], "bad"),
    )


def partitions_of(groups: Sequence[Mapping[str, Any]] | None) -> Sequence[Mapping[str, Any]] | None:
    """Return the subscription's partitions, each with its lag and its worker.

    The partition with the largest lag is first. `groups` is the API's answer about the consumer
    group. If it is None or empty, the result is None.
    """
    if not groups:
        return None
    [group] = groups
    owners = {
        partition["partition"]: member["consumerId"]
        for member in group["members"]
        for partition in member["partitions"]
    }
    found = [{**each, "worker": owners.get(each["partition"])} for each in group["partitions"]]
    return sorted(found, key=lambda each: (-(each.get("lag") or 0), each["partition"]))


_PATH: Final = "/topics/{topic}/subscriptions/{name}"
ROUTES: Final[Sequence[PageRoute]] = (
    PageRoute(path=_PATH, show=show),
    PageRoute(path=f"{_PATH}/state", submit=set_state),
    PageRoute(path=f"{_PATH}/ping", submit=ping),
    PageRoute(path=f"{_PATH}/delete", show=show_delete, submit=delete),
)

"""The pages of a topic: volume and subscriptions, newest messages, partitions, and deletion."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from app.console.api import ApiRefusedError, Call, call_of, gathered, path_of
from app.console.histories import topic_charts
from app.console.pages.subscription import partitions_of
from app.console.pages.topic_form import EDIT_FIELDS
from app.console.paging import next_after
from app.console.prefill import undo_edit
from app.console.view import PAGE_SIZE, PageRoute, PageView, Redirect, Result, ShownPage, Undo


async def show(view: PageView) -> ShownPage:
    """Show the page of a topic."""
    page = {"limit": PAGE_SIZE, "after": view.query.get("after")}
    body = {"query": {"topicName": view.topic}}
    of_topic = {"qualifiedTopicNames": view.topic, "respectMonitoringSeverity": "false"}
    settings, metrics, subscriptions, states, unhealthy, (span, history) = await gathered(
        view.api.get(view.topic_path),
        view.api.get(f"{view.topic_path}/metrics"),
        view.api.call("POST", "/query/subscriptions/metrics", query=page, body=body),
        # One query returns the metrics of subscriptions, and the other one their states. Both have
        # the same order, so their pages have the same subscriptions.
        view.api.call("POST", "/query/subscriptions", query=page, body=body),
        view.api.get("/unhealthy", of_topic),
        view.history(view.topic_path),
    )
    problems = {each["name"]: each["problems"] for each in unhealthy}
    rights = await view.rights(view.topic)
    return ShownPage(
        template="topic.html",
        title=view.topic,
        section="topics",
        context={
            "topic": view.topic,
            "settings": settings,
            "metrics": metrics,
            "subscriptions": subscriptions.body,
            "states": {each["name"]: each["state"] for each in states.body},
            "problems": problems,
            "after": next_after(subscriptions),
            "span": span,
            "charts": topic_charts(history) if history else (),
            "rights": rights,
            "may_publish": await view.may_publish(settings),
        },
        undo=_undo(view, settings) if rights.topic else None,
        live={"volume": "topic_volume.html", "subscriptions": "topic_subscriptions.html"},
    )


async def show_messages(view: PageView) -> ShownPage:
    """Show the newest messages of a topic."""
    await view.api.get(view.topic_path)
    return ShownPage(
        template="topic_messages.html",
        title=f"Newest messages of {view.topic}",
        section="topics",
        context={
            "topic": view.topic,
            "messages": await view.api.get(f"{view.topic_path}/preview"),
            "rights": await view.rights(view.topic),
        },
    )


async def show_partitions(view: PageView) -> ShownPage:
    """Show the partitions of a topic, each with the worker that owns it.

    The owner of a partition delivers its messages to all subscriptions. So the consumer group of
    the first subscription is enough to find the owners.
    """
    settings, names = await gathered(
        view.api.get(view.topic_path),
        view.api.get(f"{view.topic_path}/subscriptions", {"limit": 1}),
    )
    groups = None
    if names:
        path = f"{view.topic_path}/subscriptions{path_of(names[0])}"
        groups = await view.api.find(f"{path}/consumer-groups")
    return ShownPage(
        template="topic_partitions.html",
        title=f"Partitions of {view.topic}",
        section="topics",
        context={
            "topic": view.topic,
            "settings": settings,
            "has_subscriptions": bool(names),
            "partitions": sorted(
                partitions_of(groups) or (), key=lambda each: int(each["partition"])
            ),
        },
    )


async def show_delete(view: PageView) -> ShownPage:
    """Show what the deletion would do, and ask for the topic's name as a confirmation."""
    return await _delete_page(view)


async def delete(view: PageView) -> Result:
    """Delete the topic if the reader has entered its name."""
    if view.form["confirmed"].strip() != view.topic:
        return await _delete_page(view, problem=f"Enter {view.topic} to delete it.")
    try:
        await view.api.run(_deletion(view))
    except ApiRefusedError as error:
        return await _delete_page(view, problem=error.message, status=error.status)
    return Redirect(to=view.link("topics", done="deleted"))


def _deletion(view: PageView) -> Call:
    return call_of("DELETE", view.topic_path)


async def _delete_page(view: PageView, *, problem: str = "", status: int = 400) -> ShownPage:
    settings, metrics, names = await gathered(
        view.api.get(view.topic_path),
        view.api.get(f"{view.topic_path}/metrics"),
        view.api.get(f"{view.topic_path}/subscriptions", {"limit": PAGE_SIZE}),
    )
    rights = await view.rights(view.topic)
    return ShownPage(
        template="topic_delete.html",
        title=f"Delete {view.topic}",
        section="topics",
        status=status if problem else 200,
        context={
            "topic": view.topic,
            "settings": settings,
            "metrics": metrics,
            "subscriptions": names,
            "rights": rights,
            "problem": problem,
        },
        forms=[_deletion(view)] if rights.topic else (),
    )


def _undo(view: PageView, settings: Mapping[str, Any]) -> Undo | None:
    form = partial(view.link, "topics", view.topic)
    return undo_edit(EDIT_FIELDS, settings, query=view.query, form=form)


ROUTES: Final[Sequence[PageRoute]] = (
    PageRoute(path="/topics/{topic}", show=show),
    PageRoute(path="/topics/{topic}/newest", show=show_messages),
    PageRoute(path="/topics/{topic}/partitions", show=show_partitions),
    PageRoute(path="/topics/{topic}/delete", show=show_delete, submit=delete),
)

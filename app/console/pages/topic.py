"""The pages of a topic: its volume, subscriptions and settings, and its newest messages."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.console.api import ApiRefusedError
from app.console.histories import topic_charts
from app.console.paging import next_after
from app.console.view import PAGE_SIZE, PageRoute, PageView, Redirect, Result, ShownPage


async def show(view: PageView) -> ShownPage:
    """Show a topic."""
    settings = await view.api.get(view.topic_path)
    metrics = await view.api.get(f"{view.topic_path}/metrics")
    subscriptions = await view.api.call(
        "POST",
        "/query/subscriptions/metrics",
        query={"limit": PAGE_SIZE, "after": view.query.get("after")},
        body={"query": {"topicName": view.topic}},
    )
    unhealthy = await view.api.get(
        "/unhealthy", {"qualifiedTopicNames": view.topic, "respectMonitoringSeverity": "false"}
    )
    span, history = await view.history(view.topic_path)
    problems = {each["name"]: each["problems"] for each in unhealthy}
    return ShownPage(
        template="topic.html",
        title=view.topic,
        section="topics",
        context={
            "topic": view.topic,
            "settings": settings,
            "metrics": metrics,
            "subscriptions": subscriptions.body,
            "states": await _states(view, subscriptions.body),
            "problems": problems,
            "after": next_after(subscriptions),
            "span": span,
            "charts": topic_charts(history) if history else (),
            "rights": await view.rights(view.topic),
            "may_publish": await view.may_publish(settings),
        },
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


async def delete(view: PageView) -> Result:
    """Delete the topic if the reader entered its name. The topic must have no subscriptions."""
    if view.form["confirmed"] != view.topic:
        message = f"To delete the topic, enter its name: {view.topic}"
        raise ApiRefusedError(400, message)
    await view.api.send("DELETE", view.topic_path)
    return Redirect(to=view.link("topics", done="deleted"))


async def _states(view: PageView, metrics: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
    """Return the state of each subscription in `metrics`, by name."""
    if not metrics:
        return {}
    names = [each["name"] for each in metrics]
    query = {"topicName": view.topic, "name": {"in": names}}
    found = await view.api.call(
        "POST", "/query/subscriptions", query={"limit": PAGE_SIZE}, body={"query": query}
    )
    return {each["name"]: each["state"] for each in found.body}


ROUTES: Final[Sequence[PageRoute]] = (
    PageRoute(path="/topics/{topic}", show=show),
    PageRoute(path="/topics/{topic}/newest", show=show_messages),
    PageRoute(path="/topics/{topic}/delete", submit=delete),
)

"""The page that moves a subscription to another time. Before the move, it shows the effects."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.console.api import ApiRefusedError, Call, call_of
from app.console.edits import DRY_RUN
from app.console.view import PageRoute, PageView, Redirect, Result, ShownPage


async def show(view: PageView) -> ShownPage:
    """Show the form for the time to which the subscription is moved."""
    await view.api.get(view.subscription_path)
    return await _page(view)


async def look_or_move(view: PageView) -> Result:
    """Show the positions after the move, or move the subscription if the reader has confirmed."""
    to = view.form["to"].strip()
    if "sure" in view.form:
        await view.api.run(_move(view, to))
        return Redirect(to=view.link.subscription(view.topic, view.name, done="moved"))
    try:
        answer = await view.api.run(_dry_run(view, to))
    except ApiRefusedError as error:
        return await _page(view, problem=error.message, status=error.status)
    groups = await view.api.get(f"{view.subscription_path}/consumer-groups")
    current = {each["partition"]: each for each in groups[0]["partitions"]}
    [offsets] = answer.body.values()
    return await _page(view, moves=moves_of(current, offsets))


def _dry_run(view: PageView, to: str) -> Call:
    body = {"retransmissionDate": to}
    return call_of("PUT", f"{view.subscription_path}/retransmission", body, query=DRY_RUN)


def _move(view: PageView, to: str) -> Call:
    return call_of("PUT", f"{view.subscription_path}/retransmission", {"retransmissionDate": to})


def moves_of(
    current: Mapping[int, Mapping[str, Any]], offsets: Sequence[Mapping[str, Any]]
) -> Sequence[Mapping[str, Any]]:
    """Return the offset of each partition before and after the move of a subscription.

    The result also counts the messages between the two offsets: `again` would be sent again, and
    `skipped` would not be sent.
    """
    moves = []
    for each in offsets:
        before = current.get(each["partition"], {}).get("currentOffset")
        distance = None if before is None else each["offset"] - before
        moves.append(
            {
                "partition": each["partition"],
                "before": before,
                "after": each["offset"],
                "again": max(0, -(distance or 0)),
                "skipped": max(0, distance or 0),
            }
        )
    return moves


async def _page(
    view: PageView,
    *,
    moves: Sequence[Mapping[str, Any]] | None = None,
    problem: str = "",
    status: int = 200,
) -> ShownPage:
    rights = await view.rights(view.topic, view.name)
    to = view.form["to"].strip() or "-1h"
    forms = [_dry_run(view, to)] if moves is None else [_dry_run(view, to), _move(view, to)]
    return ShownPage(
        template="move.html",
        title=f"Move {view.name}",
        section="topics",
        status=status,
        context={
            "topic": view.topic,
            "name": view.name,
            "to": to,
            "moves": moves,
            "again": sum(each["again"] for each in moves or ()),
            "skipped": sum(each["skipped"] for each in moves or ()),
            "problem": problem,
            "rights": rights,
        },
        forms=forms if rights.subscription else (),
    )


ROUTES: Final[Sequence[PageRoute]] = (
    PageRoute(path="/topics/{topic}/subscriptions/{name}/move", show=show, submit=look_or_move),
)

"""The page *Operations*: the state of the service, workers, the mode, and inconsistent topics."""

from collections.abc import Mapping, Sequence
from typing import Final

from app.console.api import ApiRefusedError, Call, call_of, gathered, path_of
from app.console.paging import next_after
from app.console.view import PAGE_SIZE, PageRoute, PageView, Redirect, Result, ShownPage
from app.domain.access.keys import Role

MODES: Final[Mapping[str, str]] = {
    "readWrite": "Everybody may change what their keys allow.",
    "readOnly": "Only admins may change anything. Messages are published and delivered.",
    "readOnlyAdmin": "Only admins may change anything. Messages are published and delivered.",
}
# What is true if a part of the API process is well, for each part.
PARTS: Final[Mapping[str, str]] = {
    "log": "messages are read and written",
    "logWritable": "the last message was accepted",
    "database": "topics and subscriptions are read and changed",
    "migrations": "the tables fit this version",
    "datacenter": "operators have put this installation into service",
}
# The maximum number of OAuth providers that are shown with their details.
PROVIDERS_MAX: Final = 50


async def show(view: PageView) -> ShownPage:
    """Show the state of the service.

    Admins also see the topics that exist only in the log or only in the database.
    """
    rights = await view.rights()
    ready, health, workers, mode, providers = await gathered(
        view.api.state("/status/ready"),
        view.api.get("/status/health"),
        view.api.get("/workers"),
        view.api.get("/mode"),
        view.api.get("/oauth/providers"),
    )
    shown = () if view.only_live else providers[:PROVIDERS_MAX]
    inconsistent = await _inconsistent(view) if rights.admin else None
    lacking = inconsistent["database"] if inconsistent else ()
    forms = [_mode_change(mode)] if Role.ADMIN in rights.roles else []
    return ShownPage(
        template="operations.html",
        title="Operations",
        section="operations",
        context={
            "rights": rights,
            "ready": ready,
            "health": health,
            "parts_for": PARTS,
            "workers": workers,
            "mode": mode,
            "modes": MODES,
            "providers": await gathered(
                *(view.api.find(path_of("oauth", "providers", name)) for name in shown)
            ),
            "more_providers": len(providers) - len(shown),
            "inconsistent": inconsistent,
        },
        forms=[*forms, *(_restoration(topic) for topic in lacking[:1])],
        live={"service": "operations_service.html"},
    )


async def show_settings(view: PageView) -> ShownPage:
    """Show the current settings of the API process that answers, without secrets."""
    settings = await view.api.get("/settings")
    return ShownPage(
        template="service_settings.html",
        title="Settings",
        section="operations",
        context={
            "given": [each for each in settings if each["from"] != "default"],
            "others": [each for each in settings if each["from"] == "default"],
        },
    )


async def show_worker(view: PageView) -> ShownPage:
    """Show the partitions that a worker delivers, in the order of topics."""
    query = {"limit": PAGE_SIZE, "after": view.query.get("after")}
    path = path_of("workers", view.params["worker"], "partitions")
    answer = await view.api.call("GET", path, query=query)
    return ShownPage(
        template="worker.html",
        title="Worker",
        section="operations",
        context={
            "worker": view.params["worker"],
            "topics": answer.body,
            "after": next_after(answer),
        },
    )


async def _inconsistent(view: PageView) -> Mapping[str, Sequence[str]] | None:
    """Return the topics that are only in the log, and those that are only in the database.

    The result is None if the log or the database does not answer, or if the page does not need
    these topics.
    """
    path = "/consistency/inconsistencies/topics"
    if view.only_live:
        return None
    in_log, in_database = await gathered(
        view.api.find(path, {"only": "log"}), view.api.find(path, {"only": "database"})
    )
    if in_log is None or in_database is None:
        return None
    return {"log": in_log, "database": in_database}


async def set_mode(view: PageView) -> Result:
    """Change the mode, which says who may make changes. It applies to all API processes."""
    await view.api.run(_mode_change(view.form["mode"]))
    return Redirect(to=view.link("operations", done="mode"))


def _mode_change(mode: str) -> Call:
    return call_of("POST", "/mode", query={"mode": mode})


async def restore_topic(view: PageView) -> Result:
    """Create a topic in the log if only the database has the topic."""
    topic = view.form["topic"]
    known = await view.api.get("/consistency/inconsistencies/topics", {"only": "database"})
    if topic not in known:
        raise ApiRefusedError(400, "The log has this topic.")
    await view.api.run(_restoration(topic))
    return Redirect(to=view.link("operations", done="restored"))


def _restoration(topic: str) -> Call:
    return call_of("POST", path_of("consistency", "sync", "topics", topic))


ROUTES: Final[Sequence[PageRoute]] = (
    PageRoute(path="/operations", show=show),
    PageRoute(path="/operations/settings", show=show_settings),
    PageRoute(path="/operations/workers/{worker}", show=show_worker),
    PageRoute(path="/operations/mode", submit=set_mode),
    PageRoute(path="/operations/restore", submit=restore_topic),
)

"""The page *Operations*: the state of each part, workers, the mode, and inconsistent topics."""

from collections.abc import Mapping, Sequence
from typing import Final

from app.console.api import ApiRefusedError, path_of
from app.console.view import PageRoute, PageView, Redirect, Result, ShownPage

MODES: Final[Mapping[str, str]] = {
    "readWrite": "Everybody may change what their keys allow.",
    "readOnly": "Only admins may change anything. Messages are published and delivered.",
    "readOnlyAdmin": "Only admins may change anything. Messages are published and delivered.",
}
# For each part of the API process, what works if the part works.
PARTS: Final[Mapping[str, str]] = {
    "log": "messages are read and written",
    "logWritable": "the last message was accepted",
    "database": "topics and subscriptions are read and changed",
    "migrations": "the tables fit this version",
    "datacenter": "operators have put this installation into service",
}


async def show(view: PageView) -> ShownPage:
    """Show the state of the service; to admins also the topics that the log lacks."""
    rights = await view.rights()
    ready = await view.api.state("/status/ready")
    health = await view.api.get("/status/health")
    return ShownPage(
        template="operations.html",
        title="Operations",
        section="operations",
        context={
            "rights": rights,
            "ready": ready,
            "health": health,
            "parts_for": PARTS,
            "workers": await view.api.get("/workers"),
            "mode": await view.api.get("/mode"),
            "modes": MODES,
            "providers": await view.api.get("/oauth/providers"),
            "inconsistent": await _inconsistent(view) if rights.admin else None,
        },
        live={"service": "operations_service.html"},
    )


async def _inconsistent(view: PageView) -> Mapping[str, Sequence[str]] | None:
    """Return the topics that are only in the log, or only in the database; None if unknown."""
    path = "/consistency/inconsistencies/topics"
    in_log = await view.api.find(path, {"only": "log"})
    in_database = await view.api.find(path, {"only": "database"})
    if in_log is None or in_database is None:
        return None
    return {"log": in_log, "database": in_database}


async def set_mode(view: PageView) -> Result:
    """Change the mode of all API processes."""
    await view.api.send("POST", "/mode", query={"mode": view.form["mode"]})
    return Redirect(to=view.link("operations", done="mode"))


async def restore_topic(view: PageView) -> Result:
    """Create in the log a topic that only the database has."""
    topic = view.form["topic"]
    known = await view.api.get("/consistency/inconsistencies/topics", {"only": "database"})
    if topic not in known:
        raise ApiRefusedError(400, "The log has this topic.")
    await view.api.send("POST", path_of("consistency", "sync", "topics", topic))
    return Redirect(to=view.link("operations", done="restored"))


ROUTES: Final[Sequence[PageRoute]] = (
    PageRoute(path="/operations", show=show),
    PageRoute(path="/operations/mode", submit=set_mode),
    PageRoute(path="/operations/restore", submit=restore_topic),
)

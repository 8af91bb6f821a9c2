"""`ETag` and `If-Match`: a client can make a change only if a resource is in a known state."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from starlette.requests import Request

from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import Topic
from app.domain.errors import ChangedMeanwhileError

Numbered = TypeVar("Numbered", Topic, Subscription)

ETAG_HEADER: Final[dict[str, Any]] = {
    "ETag": {
        "description": "this state of it, for `If-Match`",
        "schema": {"type": "string"},
        "example": '"42"',
    }
}
IF_MATCH: Final[dict[str, Any]] = {
    "name": "If-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "an `ETag`: 412 when it has changed since",
}


def etag(resource: Topic | Subscription) -> dict[str, str]:
    """Return the `ETag` header with the version number of `resource`.

    No two versions have the same number, even if a resource is deleted and created again.
    """
    return {"ETag": f'"{resource.change}"'}


def check(request: Request) -> Callable[[Topic | Subscription], None]:
    """Return a function that checks a topic or subscription against the request's `If-Match`.

    The function raises ChangedMeanwhileError if the topic or subscription has changed.
    """
    given = ",".join(request.headers.getlist("if-match"))
    wanted = {each.strip() for each in given.split(",")} - {""}

    def require(current: Topic | Subscription) -> None:
        if wanted and "*" not in wanted and etag(current)["ETag"] not in wanted:
            raise ChangedMeanwhileError(f"{current.name} has changed meanwhile: read it again")

    return require


def if_unchanged(
    request: Request, edit: Callable[[Numbered], Numbered]
) -> Callable[[Numbered], Numbered]:
    """Return a function that first checks the request's `If-Match`, and then calls `edit`.

    The function raises ChangedMeanwhileError if the object to edit has changed.
    """
    require = check(request)

    def checked(current: Numbered) -> Numbered:
        require(current)
        return edit(current)

    return checked

"""The pages of API keys, for admins: the list, the form for a new key, and revoking a key."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.console.api import ApiRefusedError, Call, call_of, path_of
from app.console.edits import filled_body
from app.console.forms import (
    NO_PROBLEMS,
    Field,
    Problems,
    body_of,
    problems_in,
    whole,
    without_nulls,
    words_in,
)
from app.console.paging import next_after
from app.console.view import PAGE_SIZE, PageRoute, PageView, Redirect, Result, ShownPage

FIELDS: Final[Sequence[Field]] = (
    Field(path="name", label="Who it is for", required=True, hint="It stands in the audit."),
    Field(
        path="scopes",
        label="What it allows",
        required=True,
        read=words_in,
        hint="Separated by blanks: admin, read, owner:id, group:name, topic:group.name,"
        " subscription:group.topic/name, publish:group.*",
    ),
    Field(
        path="expiresIn",
        label="Ends after",
        kind="number",
        unit="seconds",
        read=whole,
        optional=True,
        hint="It never ends if this is empty. A year has 31,536,000 seconds.",
    ),
)
_PATHS: Final = tuple(each.path for each in FIELDS)


async def show(view: PageView) -> ShownPage:
    """Show a page of the list of API keys. Their tokens are not shown."""
    after = view.query.get("after")
    answer = await view.api.call("GET", "/keys", query={"limit": PAGE_SIZE, "after": after})
    rights = await view.rights()
    valid = [each["id"] for each in answer.body if not each.get("revokedAt")]
    return ShownPage(
        template="keys.html",
        title="API keys",
        section="operations",
        context={
            "keys": answer.body,
            "after": next_after(answer),
            "is_first": after is None,
            "rights": rights,
        },
        forms=[_revocation(each) for each in valid[:1]] if rights.admin else (),
    )


async def show_new(view: PageView) -> ShownPage:
    """Show the form for a new key."""
    return await _form(view, {}, NO_PROBLEMS)


async def create(view: PageView) -> Result:
    """Create an API key, and show its token. The token is shown only this once."""
    body = without_nulls(body_of(FIELDS, view.form))
    try:
        answer = await view.api.send("POST", "/keys", body)
    except ApiRefusedError as error:
        return await _form(view, body, problems_in(error, _PATHS), status=error.status)
    return ShownPage(
        template="key_made.html",
        title=f"Key of {answer.body['name']}",
        section="operations",
        context={"key": answer.body},
    )


async def revoke(view: PageView) -> Result:
    """Revoke a key."""
    await view.api.run(_revocation(view.params["key"]))
    return Redirect(to=view.link("keys", done="revoked"))


def _revocation(key: str) -> Call:
    return call_of("DELETE", path_of("keys", key))


async def _form(
    view: PageView, current: Mapping[str, Any], problems: Problems, *, status: int = 200
) -> ShownPage:
    rights = await view.rights()
    created = call_of("POST", "/keys", filled_body(FIELDS, current))
    return ShownPage(
        template="key_new.html",
        title="New API key",
        section="operations",
        status=status,
        context={
            "fields": FIELDS,
            "current": current,
            "problems": problems,
            "rights": rights,
        },
        forms=[created] if rights.admin else (),
    )


ROUTES: Final[Sequence[PageRoute]] = (
    PageRoute(path="/keys", show=show),
    PageRoute(path="/keys/{key}/revoke", submit=revoke),
    PageRoute(path="/new-key", show=show_new, submit=create),
)

"""The page of a subscription's signing secrets: lists, creates and removes secrets."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.console.api import ApiRefusedError, Call, call_of, path_of
from app.console.edits import filled_body
from app.console.forms import NO_PROBLEMS, Field, Problems, body_of, problems_in, whole
from app.console.view import PageRoute, PageView, Redirect, Result, ShownPage

FIELDS: Final[Sequence[Field]] = (
    Field(
        path="type",
        label="Kind",
        kind="choice",
        choices=("v1", "v1a"),
        hint="v1: HMAC-SHA256, both sides have the secret. v1a: ed25519, with a public key.",
    ),
    Field(
        path="overlap",
        label="The earlier ones sign, too, for",
        kind="number",
        unit="s",
        read=whole,
        hint="So that receivers have time to take the new one. 86400 is a day.",
    ),
)
_NEW: Final[Mapping[str, Any]] = {"type": "v1", "overlap": 86_400}


async def show(view: PageView) -> ShownPage:
    """Show the list of the secrets, and the form for a new secret."""
    return await _page(view, _NEW)


async def submit(view: PageView) -> Result:
    """Create a secret, or remove the secret that the form names.

    A new secret is shown only once, on this page.
    """
    if secret := view.form["remove"]:
        await view.api.run(_removal(view, secret))
        return Redirect(to=view.link.subscription(view.topic, view.name, "secrets", done="ended"))
    body = body_of(FIELDS, view.form)
    try:
        answer = await view.api.run(_creation(view, body))
    except ApiRefusedError as error:
        problems = problems_in(error, [each.path for each in FIELDS])
        return await _page(view, body, problems=problems, status=error.status)
    return await _page(view, _NEW, made=answer.body)


def _creation(view: PageView, body: Mapping[str, Any]) -> Call:
    return call_of("POST", f"{view.subscription_path}/secrets", body)


def _removal(view: PageView, secret: str) -> Call:
    return call_of("DELETE", f"{view.subscription_path}/secrets{path_of(secret)}")


async def _page(
    view: PageView,
    current: Mapping[str, Any],
    *,
    problems: Problems = NO_PROBLEMS,
    made: Mapping[str, Any] | None = None,
    status: int = 200,
) -> ShownPage:
    rights = await view.rights(view.topic, view.name)
    # Only owners may see the secrets, even in masked form. Other readers get the page without
    # secrets.
    secrets = await view.api.find(f"{view.subscription_path}/secrets")
    removals = [_removal(view, each["id"]) for each in (secrets or ())[:1]]
    forms = [_creation(view, filled_body(FIELDS, current)), *removals]
    return ShownPage(
        template="secrets.html",
        title=f"Signing secrets of {view.name}",
        section="topics",
        status=status,
        context={
            "topic": view.topic,
            "name": view.name,
            "secrets": secrets,
            "made": made,
            "fields": FIELDS,
            "current": current,
            "problems": problems,
            "rights": rights,
        },
        forms=forms if rights.subscription and secrets is not None else (),
    )


ROUTES: Final[Sequence[PageRoute]] = (
    PageRoute(path="/topics/{topic}/subscriptions/{name}/secrets", show=show, submit=submit),
)

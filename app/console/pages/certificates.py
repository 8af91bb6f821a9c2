"""The page of a subscription's client certificate: shows it, sets another one, and removes it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from app.console.api import ApiRefusedError
from app.console.forms import (
    NO_PROBLEMS,
    Field,
    Problems,
    body_of,
    problems_in,
    put,
    without_nulls,
)
from app.console.view import PageRoute, PageView, Redirect, Result, ShownPage
from app.domain.secrets import MASK

_CERTIFICATE: Final = "clientCertificate"
_KEY: Final = f"{_CERTIFICATE}.privateKey"
_FIELDS: Final[Sequence[Field]] = (
    Field(
        path=f"{_CERTIFICATE}.certificate",
        label="Certificate",
        kind="area",
        hint="In PEM: the certificate, then those between it and its authority.",
    ),
    Field(
        path=_KEY,
        label="Private key",
        kind="area",
        optional=True,
        hint="In PEM, without a password. It is stored encrypted, and is never shown.",
    ),
)


async def show(view: PageView) -> ShownPage:
    """Show the certificate, and the form for another one."""
    return await _page(view, {}, NO_PROBLEMS)


async def submit(view: PageView) -> Result:
    """Set the certificate in the form, or remove the present one. An empty key field keeps the key.

    If the API refuses the certificate, show the form again with the errors, and without the key.
    """
    removes = "remove" in view.form
    sent = body_of(_FIELDS, view.form)
    change = {_CERTIFICATE: None} if removes else without_nulls(sent)
    try:
        await view.api.send("PUT", view.subscription_path, change)
    except ApiRefusedError as error:
        if removes:
            raise
        problems = problems_in(error, [each.path for each in _FIELDS])
        return await _refused(view, sent, problems, status=error.status)
    return Redirect(to=view.link.subscription(view.topic, view.name, "certificates", done="saved"))


async def _refused(
    view: PageView, sent: dict[str, Any], problems: Problems, *, status: int
) -> ShownPage:
    shown = {**sent[_CERTIFICATE]}
    masked = {_CERTIFICATE: {**shown, "privateKey": MASK}}
    # Each page shows its calls of the API. The key must not be there, either.
    view.api.calls[-1] = replace(view.api.calls[-1], body=masked)
    put(sent, _KEY, "")
    return await _page(view, sent, problems, status=status)


async def _page(
    view: PageView, sent: Mapping[str, Any], problems: Problems, *, status: int = 200
) -> ShownPage:
    settings = await view.api.get(view.subscription_path)
    return ShownPage(
        template="certificates.html",
        title=f"Certificates of {view.name}",
        section="topics",
        status=status,
        context={
            "topic": view.topic,
            "name": view.name,
            "path": view.subscription_path,
            "endpoint": settings["endpoint"],
            "certificate": settings.get(_CERTIFICATE),
            "fields": _FIELDS,
            "sent": sent,
            "problems": problems,
            "rights": await view.rights(view.topic, view.name),
        },
    )


ROUTES: Final[Sequence[PageRoute]] = (
    PageRoute(path="/topics/{topic}/subscriptions/{name}/certificates", show=show, submit=submit),
)

"""The page of a subscription's client certificate: shows it, sets another one, and removes it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.console.api import ApiRefusedError, Call, call_of
from app.console.edits import filled_body
from app.console.forms import (
    NO_PROBLEMS,
    Field,
    Problems,
    body_of,
    problems_in,
    put,
    without_nulls,
)
from app.console.pages.subscription import ping_of
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
    try:
        await view.api.run(_removal(view) if removes else _replacement(view, without_nulls(sent)))
    except ApiRefusedError as error:
        if removes:
            raise
        put(sent, _KEY, "")
        problems = problems_in(error, [each.path for each in _FIELDS])
        return await _page(view, sent, problems, status=error.status)
    return Redirect(to=view.link.subscription(view.topic, view.name, "certificates", done="saved"))


def _replacement(view: PageView, body: Mapping[str, Any]) -> Call:
    return call_of("PUT", view.subscription_path, body)


def _removal(view: PageView) -> Call:
    return call_of("PUT", view.subscription_path, {_CERTIFICATE: None})


async def _page(
    view: PageView, sent: Mapping[str, Any], problems: Problems, *, status: int = 200
) -> ShownPage:
    settings = await view.api.get(view.subscription_path)
    certificate, secure = settings.get(_CERTIFICATE), settings["endpoint"].startswith("https://")
    rights = await view.rights(view.topic, view.name)
    filled = filled_body(_FIELDS, sent)
    put(filled, _KEY, MASK)
    forms = [_replacement(view, filled)] if secure else []
    if certificate:
        forms += [_removal(view), ping_of(view)]
    return ShownPage(
        template="certificates.html",
        title=f"Certificates of {view.name}",
        section="topics",
        status=status,
        context={
            "topic": view.topic,
            "name": view.name,
            "secure": secure,
            "certificate": certificate,
            "replacement": _replacement(view, filled),
            "fields": _FIELDS,
            "sent": sent,
            "problems": problems,
            "rights": rights,
        },
        forms=forms if rights.subscription else (),
    )


ROUTES: Final[Sequence[PageRoute]] = (
    PageRoute(path="/topics/{topic}/subscriptions/{name}/certificates", show=show, submit=submit),
)

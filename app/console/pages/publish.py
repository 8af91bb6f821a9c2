"""The page that publishes a message by hand."""

import secrets
from collections.abc import Sequence
from typing import Final

from app.console.api import ApiRefusedError, Call, call_of
from app.console.view import PageRoute, PageView, Redirect, Result, ShownPage

_MESSAGE_ID: Final = "hermes-message-id"
_START: Final = '{\n  "hello": "world"\n}'


async def show(view: PageView) -> ShownPage:
    """Show the form in which the reader writes a message."""
    return await _form(view)


async def publish(view: PageView) -> Result:
    """Publish the message, and redirect to the page of its trace."""
    try:
        answer = await view.api.run(_publication(view, view.form["body"], form_id=view.form["id"]))
    except ApiRefusedError as error:
        return await _form(view, error=error)
    message = answer.headers[_MESSAGE_ID]
    return Redirect(to=view.link("topics", view.topic, "messages", message, done="published"))


def _publication(view: PageView, body: str, *, form_id: str) -> Call:
    # Each form has a random id, which is the Idempotency-Key of the request. If the same form is
    # sent twice, only one message is published.
    headers = {"content-type": "application/json", "idempotency-key": form_id}
    if key := view.form["key"].strip():
        headers["partition-key"] = key
    return call_of("POST", view.topic_path, body.encode(), headers=headers)


async def _form(view: PageView, error: ApiRefusedError | None = None) -> ShownPage:
    settings = await view.api.get(view.topic_path)
    may_publish = await view.may_publish(settings)
    body, form_id = view.form["body"] if error else _START, secrets.token_hex(16)
    return ShownPage(
        template="publish.html",
        title=f"Publish to {view.topic}",
        section="topics",
        status=error.status if error else 200,
        context={
            "topic": view.topic,
            "settings": settings,
            "body": body,
            "key": view.form["key"],
            "error": error,
            "id": form_id,
            "may_publish": may_publish,
        },
        forms=[_publication(view, body, form_id=form_id)] if may_publish else (),
    )


ROUTES: Final[Sequence[PageRoute]] = (
    PageRoute(path="/topics/{topic}/publish", show=show, submit=publish),
)

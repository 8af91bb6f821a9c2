"""Forms that change a topic or a subscription. Changes are shown before they are saved."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Protocol

from app.console.api import ApiRefusedError, Call, call_of
from app.console.diffs import differences
from app.console.forms import (
    NO_PROBLEMS,
    Field,
    Problems,
    SentForm,
    as_filled,
    at_path,
    body_of,
    is_same,
    json_object,
    problems_in,
    put,
    without_nulls,
)
from app.console.prefill import fill_before
from app.console.view import PageView, Redirect, Result, ShownPage
from app.domain.secrets import MASK

# The name of a form field for settings that have no field of their own. Its value is a JSON merge
# patch.
MORE: Final = "more"
# The query of a request that only checks and shows what would change.
DRY_RUN: Final = {"dryRun": "true"}


def more_field(group: str, *, such_as: str) -> Field:
    """Return the form field for all settings that have no form field of their own.

    On the page, the field is below the title `group`. Its hint names the setting `such_as`.
    """
    return Field(
        path=MORE,
        group=group,
        label="More settings",
        kind="area",
        read=json_object,
        optional=True,
        hint=f"A JSON object with other fields of the API, such as {such_as}, as a merge patch.",
    )


class ShowsForm(Protocol):
    """A function that returns a page with a form, with the form's values and errors."""

    async def __call__(
        self, current: Mapping[str, Any], problems: Problems, *, status: int
    ) -> ShownPage:
        """Return the page with the values in `current` and the errors in `problems`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewForm:
    """A form that creates something by a POST to the API.

    Attributes:
        path: The path of the API to which the POST is sent.
        page: The link to the page that is shown after the creation.
        fields: The fields of the form.
        show: A function that returns the page with the form.
    """

    path: str
    page: str
    fields: Sequence[Field]
    show: ShowsForm


@dataclass(frozen=True, slots=True, kw_only=True)
class EditForm:
    """A form that changes settings by a merge patch.

    Attributes:
        path: The path of the settings in the API.
        name: The name of the topic or subscription whose settings are changed.
        page: A function that returns the link to the page of this topic or subscription, with the
            parameters that it gets.
        form: The link to the form.
        fields: The fields of the form.
        show: A function that returns the page with the form.
        tidied: A function that returns the merge patch to send, made from the reader's changes.
    """

    path: str
    name: str
    page: Callable[..., str]
    form: str
    fields: Sequence[Field]
    show: ShowsForm
    tidied: Callable[[dict[str, Any]], dict[str, Any]] = dict


async def shown_or_created(view: PageView, new: NewForm) -> Result:
    """Create the topic or subscription that the form describes.

    If the API refuses it, show the form again with the errors.
    """
    sent = body_of(new.fields, view.form)
    if problems := more_problems(view.form):
        return await new.show(sent, problems, status=HTTPStatus.BAD_REQUEST)
    try:
        await view.api.send("POST", new.path, without_nulls(with_more(dict(sent))))
    except ApiRefusedError as error:
        problems = problems_in(error, [each.path for each in new.fields])
        return await new.show(sent, problems, status=error.status)
    return Redirect(to=new.page)


async def shown_or_saved(view: PageView, edit: EditForm) -> Result:
    """Show the differences that the form makes. If the reader has confirmed them, save them.

    Saving fails if somebody else has changed the settings since the differences were shown.
    """
    if "patch" in view.form:
        return await _saved(view, edit)
    answer = await view.api.call("GET", edit.path)
    current = answer.body
    sent = {**current, **body_of(edit.fields, view.form)}
    if problems := more_problems(view.form):
        return await edit.show(sent, problems, status=HTTPStatus.BAD_REQUEST)
    patch = edit.tidied(patch_of(edit.fields, current, view.form))
    try:
        checked = await view.api.call("PUT", edit.path, query=DRY_RUN, body=patch)
    except ApiRefusedError as error:
        problems = problems_in(error, [each.path for each in edit.fields])
        return await edit.show(sent, problems, status=error.status)
    changes = differences(current, checked.body)
    etag = answer.headers.get("etag", "")
    return ShownPage(
        template="diff.html",
        title=f"Change {edit.name}?",
        section="topics",
        context={
            "topic": view.topic,
            "name": view.params.get("name", ""),
            "changed": edit.name,
            "form": edit.form,
            "changes": changes,
            "patch": json.dumps(patch),
            "etag": etag,
        },
        forms=[_change(edit, patch, etag=etag)] if changes else (),
    )


async def _saved(view: PageView, edit: EditForm) -> Redirect:
    try:
        patch = json.loads(view.form["patch"])
    except ValueError as exc:
        raise ApiRefusedError(400, "The change is not JSON.") from exc
    before = await view.api.get(edit.path)
    saved = await view.api.run(_change(edit, patch, etag=view.form["etag"]))
    undo = fill_before(edit.fields, before, saved.body, patch=patch)
    return Redirect(to=edit.page(done="saved", undo=undo))


def _change(edit: EditForm, patch: object, *, etag: str) -> Call:
    return call_of("PUT", edit.path, patch, headers={"if-match": etag} if etag else {})


def filled_body(fields: Sequence[Field], current: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body that a form sends if it shows `current` and the reader changes nothing."""
    return without_nulls(with_more(body_of(fields, as_filled(fields, current))))


def check_of(path: str, fields: Sequence[Field], current: Mapping[str, Any]) -> Call:
    """Return the request by which a form with the settings `current` asks what would change.

    Its body has all settings of the form, although the form sends only those that the reader has
    changed. It has no settings with masked secrets, because the API refuses them.
    """
    plain = [each for each in fields if MASK not in str(each.shown(current))]
    return call_of("PUT", path, filled_body(plain, current), query=DRY_RUN)


def more_problems(form: SentForm) -> Problems:
    """Return the error of the form field `more` if its text is not a JSON object."""
    text = form[MORE]
    if not text.strip() or isinstance(json_object(text), dict):
        return NO_PROBLEMS
    return Problems(by_field={MORE: ["must be a JSON object"]})


def patch_of(fields: Sequence[Field], current: Mapping[str, Any], form: SentForm) -> dict[str, Any]:
    """Return a JSON merge patch with the fields that the reader has changed in the form."""
    patch: dict[str, Any] = {}
    for each in fields:
        value = each.value(form)
        if each.path == MORE or is_same(value, at_path(current, each.path)):
            continue
        put(patch, each.path, value)
    more = next((each.value(form) for each in fields if each.path == MORE), None)
    return {**patch, **more} if isinstance(more, dict) else patch


def with_more(body: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON object of a form without its field `more`.

    The members of the field `more` become members of the whole object.
    """
    more = body.pop(MORE, None)
    return {**body, **more} if isinstance(more, dict) else body

"""Forms that change a topic or a subscription. Changes are shown before they are saved."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Protocol

from app.console.api import ApiRefusedError
from app.console.diffs import differences
from app.console.forms import (
    NO_PROBLEMS,
    Field,
    Problems,
    SentForm,
    at_path,
    body_of,
    json_object,
    problems_in,
    put,
    without_nulls,
)
from app.console.view import PageView, Redirect, Result, ShownPage

# The field of a form with any other fields of the API, as a merge patch.
MORE: Final = "more"


def more_field(group: str) -> Field:
    """Return a form field for settings that have no field of their own, below the title `group`."""
    return Field(
        path=MORE,
        group=group,
        label="More settings",
        kind="area",
        read=json_object,
        optional=True,
        hint="A JSON object with any other fields of the API, as a merge patch.",
    )


class ShowsForm(Protocol):
    """Returns the page with the form, its values, and the errors at its fields."""

    async def __call__(
        self, current: Mapping[str, Any], problems: Problems, *, status: int
    ) -> ShownPage:
        """Return the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewForm:
    """A form that creates something by a POST to the API.

    Attributes:
        path: The path in the API.
        page: The link to the page of what was created.
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
        name: The name of what is changed.
        page: The link to the page of what is changed.
        form: The link to the form.
        fields: The fields of the form.
        show: A function that returns the page with the form.
        tidied: A function that completes the merge patch before it is sent.
    """

    path: str
    name: str
    page: str
    form: str
    fields: Sequence[Field]
    show: ShowsForm
    tidied: Callable[[dict[str, Any]], dict[str, Any]] = dict


async def shown_or_created(view: PageView, new: NewForm) -> Result:
    """Create what the form describes, or show the form again with its errors."""
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
    """Show the differences, or save them if the reader has confirmed them.

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
        checked = await view.api.call("PUT", edit.path, query={"dryRun": "true"}, body=patch)
    except ApiRefusedError as error:
        problems = problems_in(error, [each.path for each in edit.fields])
        return await edit.show(sent, problems, status=error.status)
    return ShownPage(
        template="diff.html",
        title=f"Change {edit.name}?",
        section="topics",
        context={
            "topic": view.topic,
            "name": view.params.get("name", ""),
            "changed": edit.name,
            "form": edit.form,
            "changes": differences(current, checked.body),
            "patch": json.dumps(patch),
            "etag": answer.headers.get("etag", ""),
        },
    )


async def _saved(view: PageView, edit: EditForm) -> Redirect:
    try:
        patch = json.loads(view.form["patch"])
    except ValueError as exc:
        raise ApiRefusedError(400, "The change is not JSON.") from exc
    headers = {"if-match": view.form["etag"]} if view.form["etag"] else {}
    await view.api.call("PUT", edit.path, body=patch, headers=headers)
    return Redirect(to=edit.page)


def more_problems(form: SentForm) -> Problems:
    """Return the error of the form field `more`, if it has anything but a JSON object."""
    text = form[MORE]
    if not text.strip() or isinstance(json_object(text), dict):
        return NO_PROBLEMS
    return Problems(by_field={MORE: ["must be a JSON object"]})


def patch_of(fields: Sequence[Field], current: Mapping[str, Any], form: SentForm) -> dict[str, Any]:
    """Return the fields that the reader has changed, as a JSON merge patch."""
    patch: dict[str, Any] = {}
    for each in fields:
        value = each.value(form)
        before = at_path(current, each.path)
        if each.path == MORE or (value or None) == (before or None):
            continue
        put(patch, each.path, value)
    more = next((each.value(form) for each in fields if each.path == MORE), None)
    return {**patch, **more} if isinstance(more, dict) else patch


def with_more(body: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON of a form.

    The members of its field `more` are put beside the other fields.
    """
    more = body.pop(MORE, None)
    return {**body, **more} if isinstance(more, dict) else body

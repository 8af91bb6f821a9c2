"""The page of a topic's schema: shows its versions, and checks and saves another schema."""

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from app.console.api import ApiAnswer, ApiRefusedError, Call, call_of, gathered
from app.console.diffs import changed_lines
from app.console.edits import DRY_RUN
from app.console.forms import NO_PROBLEMS, Field, Problems, problems_in
from app.console.view import PageRoute, PageView, Redirect, Result, ShownPage

# If the current schema has at most so many characters, the form contains its text. Otherwise the
# form is empty.
_PREFILLED_MAX: Final = 16_000
_SCHEMA: Final = Field(
    path="schema",
    label="Another schema",
    kind="area",
    hint="A JSON Schema (2020-12), or an Avro schema for an AVRO topic.",
)


async def show(view: PageView) -> ShownPage:
    """Show the list of the schema's versions, and the text of one version."""
    return await _page(view)


async def check_or_save(view: PageView) -> Result:
    """Check the schema in the form, save it as the next version, or stop validating messages.

    The form field `do` says which of the three.
    """
    text = view.form["schema"]
    match view.form["do"]:
        case "end":
            await view.api.run(_removal(view))
            return _saved(view)
        case "save":
            await view.api.run(_change(view, text, etag=view.form["etag"]))
            return _saved(view)
        case _:
            pass
    if not text.strip():
        problems = Problems(by_field={"schema": ["must be given"]})
        return await _page(view, text=text, problems=problems, status=HTTPStatus.BAD_REQUEST)
    try:
        tried = await view.api.run(_check(view, text))
    except ApiRefusedError as error:
        problems = problems_in(error, ["schema"])
        return await _page(view, text=text, problems=problems, status=error.status)
    return await _page(view, text=text, tried=tried.body)


def _check(view: PageView, text: str) -> Call:
    return call_of("PUT", view.topic_path, {"schema": text}, query=DRY_RUN)


def _change(view: PageView, text: str, *, etag: str) -> Call:
    headers = {"if-match": etag} if etag else {}
    return call_of("PUT", view.topic_path, {"schema": text}, headers=headers)


def _removal(view: PageView) -> Call:
    return call_of("DELETE", f"{view.topic_path}/schema")


def _saved(view: PageView) -> Redirect:
    return Redirect(to=view.link("topics", view.topic, "schema", done="saved"))


async def _page(
    view: PageView,
    *,
    text: str | None = None,
    tried: Mapping[str, Any] | None = None,
    problems: Problems = NO_PROBLEMS,
    status: int = 200,
) -> ShownPage:
    answer, versions, chosen = await gathered(
        view.api.call("GET", view.topic_path),
        view.api.get(f"{view.topic_path}/schema/versions"),
        _chosen(view),
    )
    settings = answer.body
    current = settings.get("schema") or ""
    if text is None:
        text = _laid_out(current) if len(current) <= _PREFILLED_MAX else ""
    rights = await view.rights(view.topic)
    etag = answer.headers.get("etag", "")
    forms = [_check(view, text)]
    if tried and tried.get("schemaVersion") != settings.get("schemaVersion"):
        forms.append(_change(view, text, etag=etag))
    if current and settings["contentType"] == "JSON":
        forms.append(_removal(view))
    return ShownPage(
        template="topic_schema.html",
        title=f"Schema of {view.topic}",
        section="topics",
        status=status,
        context={
            "topic": view.topic,
            "settings": settings,
            "versions": list(reversed(versions)),
            "chosen": chosen,
            "chosen_version": chosen.headers.get("schema-version", "") if chosen else "",
            "field": _SCHEMA,
            "current": {"schema": text},
            "problems": problems,
            "tried": tried,
            "lines": changed_lines(_laid_out(current), _laid_out(text)) if tried else (),
            "etag": etag,
            "rights": rights,
        },
        forms=forms if rights.topic else (),
    )


async def _chosen(view: PageView) -> ApiAnswer | None:
    """Return the schema version that the reader has chosen.

    If the reader has chosen none, return the version that validates messages. The result is None if
    there is no such version.
    """
    path = f"{view.topic_path}/schema"
    if (version := view.query.get("version", "")).isdecimal():
        path = f"{path}/versions/{version}"
    answer = await view.api.call("GET", path)
    return None if answer.body is None else answer


def _laid_out(schema: str) -> str:
    """Return a JSON schema with each member on its own line.

    A text that is not JSON is returned unchanged.
    """
    try:
        return json.dumps(json.loads(schema), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return schema


ROUTES: Final[Sequence[PageRoute]] = (
    PageRoute(path="/topics/{topic}/schema", show=show, submit=check_or_save),
)

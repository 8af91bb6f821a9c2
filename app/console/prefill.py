"""Forms that a link fills in, such as the link *Undo* (pure).

Such a link has two parameters. `fill` has values of the form's fields, as a browser sends them.
`why` is a word for the reason, which selects one of NOTES. So nobody can make a link to a page that
shows a text of their own. The values change nothing: the reader sends the form as any other.

The URLs of pages appear in the logs of proxies. So links have no values that may contain secrets.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from app.api.bodies.base import merged
from app.console.diffs import differences
from app.console.forms import Field, SentForm, at_path, is_same, put
from app.console.view import Undo

# The maximum length of all values in a link, in characters.
FILL_MAX: Final = 1_000
NOTES: Final[Mapping[str, str]] = {
    "": "The link to this page has filled in the marked fields.",
    "undo": "The marked fields are filled in with their values from before the change.",
    "loss": "The link suggests a higher rate, so that no more messages are lost. The marked field"
    " is filled in with it.",
}
# The text for a link with the reason `loss` if it suggests no higher rate than the present one.
RATE_ENOUGH: Final = (
    "The rate is already at least as high as the link suggests. If messages are lost, something"
    " else may slow the deliveries down, such as the endpoint."
)
# Settings that change without the reader, or together with another setting.
_BY_THEMSELVES: Final = frozenset({"state", "stateReason", "trackingEnabled"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefill:
    """What a link has filled in.

    Attributes:
        patch: The values from the link that differ from the present ones, as a JSON merge patch.
        marks: For each of these fields, what is suggested, and what the value is now, by path.
        note: The text above the form; empty if there is none.
    """

    patch: Mapping[str, Any] = field(default_factory=dict)
    marks: Mapping[str, str] = field(default_factory=dict)
    note: str = ""

    def over(self, current: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the settings in `current` with the values from the link."""
        return merged(current, self.patch)


NO_PREFILL: Final = Prefill()


def prefill_of(
    fields: Sequence[Field], current: Mapping[str, Any], query: Mapping[str, str]
) -> Prefill:
    """Return what the query of a link fills in, in a form with the settings in `current`.

    Unknown fields are ignored, and also values that the field cannot show.
    """
    patch: dict[str, Any] = {}
    marks = {}
    for each, value in _values(fields, query.get("fill", "")):
        if is_same(value, at_path(current, each.path)):
            continue
        put(patch, each.path, value)
        suggested = text_of(each, merged(current, patch)) or "nothing"
        marks[each.path] = f"Suggested: {suggested}. Now: {text_of(each, current) or 'nothing'}."
    note = NOTES.get(query.get("why", ""), NOTES[""]) if marks else ""
    return Prefill(patch=patch, marks=marks, note=note)


def fill_before(
    fields: Sequence[Field],
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    *,
    patch: Mapping[str, Any],
) -> str:
    """Return the parameter `fill` of a link that takes a change back.

    The change was made by the merge patch `patch`. The result is empty if the change has set
    anything that links do not carry.
    """
    texts = {each.path: text_of(each, before) for each in fields if each.in_links}
    changed = {each.path for each in differences(before, after)} - _BY_THEMSELVES
    # A changed secret looks the same before and after, so only the patch shows the change.
    paths = changed | {each.path for each in differences({}, patch)}
    if paths - texts.keys():
        return ""
    fill = urlencode({path: texts[path] for path in sorted(paths & texts.keys())})
    return fill if len(fill) <= FILL_MAX else ""


def undo_edit(
    fields: Sequence[Field],
    current: Mapping[str, Any],
    *,
    query: Mapping[str, str],
    form: Callable[..., str],
) -> Undo | None:
    """Return the link that takes back the change that the reader has just saved.

    `form` returns the link to the form. The result is None if there is nothing to take back.
    """
    fill = query.get("undo", "")
    if query.get("done") != "saved" or not prefill_of(fields, current, {"fill": fill}).marks:
        return None
    return Undo(to=form("edit", why="undo", fill=fill))


def text_of(each: Field, settings: Mapping[str, Any]) -> str:
    """Return the value of a field as the text that a link has for it."""
    shown = each.shown(settings)
    return str(shown) if each.kind != "check" else "on" if shown else "off"


def _values(fields: Sequence[Field], fill: str) -> Iterator[tuple[Field, Any]]:
    """Yield each field that a link may fill in, with its value from the link."""
    given = dict(parse_qsl(fill, keep_blank_values=True)) if len(fill) <= FILL_MAX else {}
    for each in fields:
        if not each.in_links or each.path not in given:
            continue
        text = given[each.path]
        if each.kind == "check":
            if text in {"on", "off"}:
                yield each, text == "on"
        elif each.kind != "choice" or text in each.choices:
            yield each, each.value(SentForm([(each.path, text)]))

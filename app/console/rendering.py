"""Renders templates. Each template is compiled once."""

import json
import secrets
import shlex
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from app.accepted import JSON
from app.console import charts, trace_chart, words
from app.console.api import Call
from app.console.concealed import concealed
from app.console.forms import in_groups
from app.console.histories import SPANS
from app.console.static_files import digest
from app.console.tabs import ANALYTICS_TABS, SUBSCRIPTION_TABS, TOPIC_TABS

# Rendered HTML contains this mark in place of the form token, because several readers get the same
# HTML. The mark is replaced by the token of each reader. It is random, so no text of a user can
# contain it.
TOKEN_MARK: Final = f"token-{secrets.token_hex(16)}"

# The maximum number of characters of a body that a page shows.
SHOWN_MAX: Final = 4_000
# The file that a command sends if the body is longer than SHOWN_MAX.
BODY_FILE: Final = "body.json"
_ELLIPSIS: Final = "…"


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("app.console"),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
        # Invisible characters in values are shown as escapes, such as \u200b.
        finalize=_visible,
    )
    made.filters.update(
        number=words.number,
        exact=words.exact,
        rate=words.rate,
        size=words.size,
        span=words.span,
        share=words.share,
        counted=words.counted,
        happened=words.happened,
        loss=words.loss,
        ago=_time,
        excerpt=excerpt,
        pretty=pretty,
        curl=curl,
        curl_of_input=curl_of_input,
        has_long_body=has_long_body,
        unchanged=unchanged,
        in_groups=in_groups,
    )
    made.globals.update(
        chart=charts.line_chart,
        meter=charts.meter,
        stacked_bar=charts.stacked_bar,
        trace_chart=trace_chart.trace_chart,
        SPANS=SPANS,
        BODY_FILE=BODY_FILE,
        TOKEN=TOKEN_MARK,
        ANALYTICS_TABS=ANALYTICS_TABS,
        TOPIC_TABS=TOPIC_TABS,
        SUBSCRIPTION_TABS=SUBSCRIPTION_TABS,
    )
    return made


def render(template: str, context: Mapping[str, Any]) -> str:
    """Render a template of this package to HTML."""
    return _environment().get_template(template).render({"digest": digest(), **context})


def excerpt(text: object, limit: int = SHOWN_MAX) -> str:
    """Return at most the first `limit` characters of a text."""
    whole = str(text)
    return whole if len(whole) <= limit else f"{whole[:limit]}{_ELLIPSIS}"


def unchanged(text: object) -> Markup:
    """Return a text for a form field. Its invisible characters are not replaced by escapes.

    The browser sends the text of the form field back, and escapes would change the text.
    """
    return escape(str(text))


def pretty(value: object, limit: int = SHOWN_MAX) -> str:
    """Return `value` as JSON with indentation, at most `limit` characters.

    `value` may be a text that contains JSON. Any other text, and a text with more than `limit`
    characters, is returned without indentation.
    """
    if isinstance(value, str):
        if len(value) > limit:
            return excerpt(value, limit)
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return str(value)
    return excerpt(json.dumps(value, indent=2, ensure_ascii=False), limit)


def curl(call: Call, root: str, *, key: bool) -> str:
    """Return a curl command that sends the request `call` to the API at the URL `root`.

    With `key`, the command also sends the API key in the variable ANGELIA_API_KEY. Secrets in the
    body are masked. A body of more than SHOWN_MAX characters is not in the command: the command
    sends the file BODY_FILE.
    """
    parts = _without_body(call, root, key=key)
    if call.body is not None:
        parts.append(_data_option(_text_of(call.body)))
    return " ".join(parts)


def curl_of_input(call: Call, root: str, *, key: bool) -> str:
    """Return the same command as `curl`, but it reads the body from its standard input."""
    return " ".join([*_without_body(call, root, key=key), "-d @-"])


def has_long_body(call: Call) -> bool:
    """Return whether a command reads the body of `call` from a file, because it is too long."""
    return call.body is not None and len(_text_of(call.body)) > SHOWN_MAX


def _without_body(call: Call, root: str, *, key: bool) -> list[str]:
    parts = ["curl"] if call.method == "GET" else ["curl", "-X", call.method]
    parts.append(shlex.quote(f"{root}{call.path}"))
    if key:
        parts.append('-H "Authorization: Bearer $ANGELIA_API_KEY"')
    default = {} if call.body is None else {"content-type": JSON}
    for name, value in (default | dict(call.headers)).items():
        parts.append(f"-H {shlex.quote(f'{name.title()}: {value}')}")
    return parts


def _text_of(body: Any) -> str:  # noqa: ANN401 - JSON can have any type
    if isinstance(body, bytes):
        return body.decode("utf-8", "replace")
    return json.dumps(concealed(body), ensure_ascii=False)


def _data_option(text: str) -> str:
    if len(text) > SHOWN_MAX:
        # With `-d @`, curl would remove the line ends of the file.
        return f"--data-binary @{BODY_FILE}"
    # After `-d`, curl would take a text that begins with `@` for the name of a file to send.
    return f"{'--data-raw' if text.startswith('@') else '-d'} {shlex.quote(text)}"


def _time(value: float | str) -> Markup:
    """Return a time as the HTML element `<time>`, in UTC.

    A script of the page converts it to the time zone of the reader.
    """
    at = words.moment(value)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        at.isoformat(timespec="milliseconds"), words.utc(at), words.utc(at)
    )


def _visible(value: object) -> object:
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return words.plain(value)
    return value

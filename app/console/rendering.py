"""Templates, compiled once, and what they may use."""

import json
import secrets
import shlex
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from app.console import charts, trace_chart, words
from app.console.api import Call
from app.console.forms import in_groups
from app.console.histories import SPANS
from app.console.static_files import digest
from app.console.tabs import SUBSCRIPTION_TABS, TOPIC_TABS

# Stands for the reader's form token in what is rendered once for several readers. Nobody outside
# of this process can write it.
TOKEN_MARK: Final = f"token-{secrets.token_hex(16)}"

# The largest part of a body of others that a page shows.
SHOWN_MAX: Final = 4_000
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
        # What is printed is escaped as HTML, and spelled out where it cannot be seen.
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
        ago=_time,
        excerpt=excerpt,
        pretty=pretty,
        curl=curl,
        in_groups=in_groups,
    )
    made.globals.update(
        chart=charts.line_chart,
        meter=charts.meter,
        trace_chart=trace_chart.trace_chart,
        SPANS=SPANS,
        TOKEN=TOKEN_MARK,
        TOPIC_TABS=TOPIC_TABS,
        SUBSCRIPTION_TABS=SUBSCRIPTION_TABS,
    )
    return made


def render(template: str, context: Mapping[str, Any]) -> str:
    """Return the HTML of a template of this package."""
    return _environment().get_template(template).render({"digest": digest(), **context})


def excerpt(text: object, limit: int = SHOWN_MAX) -> str:
    """Return the start of a text."""
    said = str(text)
    return said if len(said) <= limit else f"{said[:limit]}{_ELLIPSIS}"


def pretty(value: object, limit: int = SHOWN_MAX) -> str:
    """Return JSON, or a text that may be JSON, in lines for people; the start of a long one."""
    if isinstance(value, str):
        if len(value) > limit:
            return excerpt(value, limit)
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return str(value)
    return excerpt(json.dumps(value, indent=2, ensure_ascii=False), limit)


def curl(call: Call, root: str, *, key: bool) -> str:
    """Return the command that sends the same request to the API at the URL `root`."""
    parts = ["curl"] if call.method == "GET" else ["curl", "-X", call.method]
    parts.append(shlex.quote(f"{root}{call.path}"))
    if key:
        parts.append('-H "Authorization: Bearer $ANGELIA_API_KEY"')
    if call.body is not None:
        text = call.body.decode("utf-8", "replace") if isinstance(call.body, bytes) else None
        body = json.dumps(call.body, ensure_ascii=False) if text is None else text
        parts.append("-H 'Content-Type: application/json'")
        parts.append(f"-d {shlex.quote(excerpt(body))}")
    return " ".join(parts)


def _time(value: float | str) -> Markup:
    """Return a `<time>`, which the script shows in the reader's time zone; without it, in UTC."""
    at = words.moment(value)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        at.isoformat(timespec="milliseconds"), words.utc(at), words.utc(at)
    )


def _visible(value: object) -> object:
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return words.plain(value)
    return value

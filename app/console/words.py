"""Converts numbers, times and states to text for people (pure)."""

from collections.abc import Mapping
from datetime import UTC, datetime
from math import ceil
from typing import Any, Final

# The text for an unknown value: a dash.
UNKNOWN: Final = "\u2013"
_KILO: Final = 1000
_UNITS: Final = ("", "k", "M", "G", "T")
_BYTES: Final = ("B", "kB", "MB", "GB", "TB")
_HALF_LIVES: Final = ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))
_TINY: Final = 0.01
_WHOLE: Final = 10
_MINUTE_S: Final = 120
_RESTING: Final[Mapping[str, str]] = {
    "SUSPENDED": "Suspended: nothing is sent. New messages wait in the log.",
    "PENDING": "Created, and not taken up by a worker yet.",
}
_UNREPORTED: Final = "No worker reports this subscription, so nothing is sent now."
# The words for each status of a trace entry. An entry is about a delivery to a subscription or
# about the publication.
_DELIVERIES: Final[Mapping[str, str]] = {
    "INFLIGHT": "sent",
    "SUCCESS": "delivered",
    "FILTERED": "filtered out",
}
_PUBLICATIONS: Final[Mapping[str, str]] = {
    "INFLIGHT": "received",
    "SUCCESS": "stored",
    "ERROR": "not published",
}
_LOSSES: Final[Mapping[str, str]] = {
    "RETENTION": "the log keeps them no longer",
    "PUBLISH_TTL": "too old for a first attempt",
    "MESSAGE_TTL": "their time to live ends",
    "RETRY_BUFFER": "the retry buffer is full",
}
_FAILURES: Final = (
    ("codes5xx", "the endpoint answers 5xx to"),
    ("codes4xx", "the endpoint answers 4xx to"),
    ("timeouts", "the endpoint does not answer in time to"),
    ("otherErrors", "no connection for"),
)
# Characters that are invisible, or that change the direction of text. Pages show them as escapes.
# So a name or a body that somebody wrote cannot change how the text beside it looks.
_UNSEEN: Final = {
    *range(0x09),
    *range(0x0B, 0x20),
    0x7F,
    *range(0x80, 0xA0),
    0x061C,
    *range(0x200B, 0x2010),
    *range(0x2028, 0x202F),
    *range(0x2060, 0x2070),
    0xFEFF,
}
_SHOWN: Final = {code: f"\\u{code:04x}" for code in _UNSEEN}


def plain(text: object) -> str:
    """Return a text in which each invisible character is replaced by its code."""
    return str(text).translate(_SHOWN)


def number(value: float | None) -> str:
    """Return a number with about three digits, such as 12.3 k; a dash if it is unknown."""
    return UNKNOWN if value is None else _scaled(value, _UNITS, " ")


def size(value: float | None) -> str:
    """Return a number of bytes with its unit, such as 12.3 MB."""
    return UNKNOWN if value is None else _scaled(value, _BYTES, " ")


def exact(value: float | None) -> str:
    """Return a number with all its digits in groups of three, and at most three decimals."""
    if value is None:
        return "not known"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.3f}"


def rate(value: float | None) -> str:
    """Return a rate per second, such as 41/s. A rate above zero is never shown as zero."""
    if value is None:
        return UNKNOWN
    if 0 < value < _TINY:
        return "<0.01/s"
    return f"{_scaled(value, _UNITS, '')}/s"


def share(value: float) -> str:
    """Return a fraction from 0 to 1 as a percentage. Only 0 and 1 are shown as 0 % and 100 %."""
    percent = value * 100
    if 0 < percent < 1:
        return "<1 %"
    return "99 %" if 99 < percent < 100 else f"{percent:.0f} %"  # noqa: PLR2004 - 99 and 100 percent


def span(seconds: float | None) -> str:
    """Return a duration with at most two units, such as 2 h 5 min."""
    if seconds is None:
        return UNKNOWN
    if seconds < 1:
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    if seconds < _MINUTE_S / 2:
        return f"{seconds:.1f} s" if seconds < _WHOLE else f"{seconds:.0f} s"
    whole = int(seconds)
    long, name, short, other = next(each for each in _HALF_LIVES if whole >= each[0])
    rest = whole % long // short
    return f"{whole // long} {name} {rest} {other}" if rest else f"{whole // long} {name}"


def moment(value: float | str | datetime) -> datetime:
    """Parse a time of the API: seconds or milliseconds since the epoch, or RFC 3339."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, str):
        return datetime.fromisoformat(value).astimezone(UTC)
    # A number above 1e11 is a time in milliseconds. As seconds, 1e11 would be in the year 5138.
    return datetime.fromtimestamp(value / 1000 if value > 1e11 else value, UTC)  # noqa: PLR2004 - the year 5138


def utc(value: float | str | datetime) -> str:
    """Return a time as people read it, such as 2026-05-01 12:30:05 UTC."""
    return f"{moment(value):%Y-%m-%d %H:%M:%S} UTC"


def counted(count: float, noun: str) -> str:
    """Return a count with its noun, such as `1 message` or `12.3 k messages`."""
    return f"{number(count)} {noun}" if count == 1 else f"{number(count)} {noun}s"


def pace(metrics: Mapping[str, Any], policy: Mapping[str, Any], state: str, *, now: float) -> str:
    """Return a sentence: what the subscription does now, and why it does not send more.

    `now` is in seconds since the epoch.
    """
    if state in _RESTING:
        return _RESTING[state]
    if metrics.get("outputRate") is None:
        # There is no report of any worker about the subscription. Workers report a subscription
        # only while it has something to do.
        waits = bool(metrics.get("lag"))
        return _UNREPORTED if waits else "Nothing waits, so nothing is sent now."
    delivered, allowed = metrics.get("codes2xx", 0.0), policy["rate"]
    start = f"Delivers {rate(delivered)} of {rate(allowed)}"
    reasons = _reasons(metrics, policy, now)
    if reasons:
        return f"{start}: {'; '.join(reasons)}."
    if metrics.get("lag", 0) == 0:
        return f"{start}: nothing waits."
    if delivered >= allowed * 0.9:
        return f"{start}: the subscription's own rate is the limit."
    return f"{start}."


def _reasons(metrics: Mapping[str, Any], policy: Mapping[str, Any], now: float) -> list[str]:
    found = (
        _circuit(metrics),
        _mode(metrics, policy),
        _failures(metrics),
        _next_probe(metrics, now),
    )
    return [each for each in found if each]


def _circuit(metrics: Mapping[str, Any]) -> str:
    match metrics.get("circuit"):
        case "OPEN":
            return f"the circuit is open, nothing is sent ({metrics.get('circuitReason', '')})"
        case "HALF_OPEN":
            return "the circuit is half open, one message tries"
        case _:
            return ""


def _mode(metrics: Mapping[str, Any], policy: Mapping[str, Any]) -> str:
    reason = metrics.get("modeReason") or ""
    why = f" ({reason})" if reason else ""
    match metrics.get("mode"):
        case "HEARTBEAT":
            probe = span(policy["heartbeatMax"])
            return (
                f"the endpoint is considered down{why}; one probe at a time, at least every {probe}"
            )
        case "SLOW":
            limit = rate(metrics["outputRate"])
            return f"the endpoint is coming back{why}, so at most {limit} may leave"
        case _ if reason.startswith("slowed"):
            return reason
        case _ if reason == "rising":
            return f"the rate is rising, {rate(metrics['outputRate'])} may leave"
        case _:
            return ""


def _next_probe(metrics: Mapping[str, Any], now: float) -> str:
    at = metrics.get("nextProbeAt")
    if at is None:
        return ""
    if at > now:
        seconds = ceil(at - now)
        return f"next probe in {f'{seconds} s' if seconds < _WHOLE else span(seconds)}"
    # The words for a half-open circuit say already that a message tries.
    return "" if metrics.get("circuit") == "HALF_OPEN" else "the next message is tried now"


def loss(cause: str) -> str:
    """Return the words for the cause of a loss, such as `their time to live ends`."""
    return _LOSSES.get(cause, cause.replace("_", " ").lower())


def happened(entry: Mapping[str, Any]) -> str:
    """Return the word for an entry of a trace, such as `delivered`."""
    status = str(entry["status"])
    known = _DELIVERIES if entry.get("subscription") else _PUBLICATIONS
    return known.get(status, status.lower())


def failing(metrics: Mapping[str, Any]) -> float:
    """Return which fraction of the attempts fails, from 0 to 1."""
    failed = sum(metrics.get(name, 0.0) for name, _ in _FAILURES)
    attempts = failed + metrics.get("codes2xx", 0.0)
    return failed / attempts if attempts else 0.0


def _failures(metrics: Mapping[str, Any]) -> str:
    found = [(metrics.get(name, 0.0), text) for name, text in _FAILURES]
    attempts = metrics.get("codes2xx", 0.0) + sum(value for value, _ in found)
    failed = sorted((each for each in found if each[0] > 0), reverse=True)
    return ", ".join(f"{text} {share(value / attempts)}" for value, text in failed)


def _scaled(value: float, units: tuple[str, ...], gap: str) -> str:
    unit = 0
    while abs(value) >= _KILO and unit < len(units) - 1:
        value /= _KILO
        unit += 1
    if value == int(value) or abs(value) >= 100:  # noqa: PLR2004 - three digits are enough
        text = f"{value:.0f}"
    else:
        text = f"{value:.1f}" if abs(value) >= 1 else f"{value:.2f}"
    return f"{text}{gap}{units[unit]}" if units[unit] else text

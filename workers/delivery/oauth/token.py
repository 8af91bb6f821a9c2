"""Access tokens: what providers answer, and when the next one is requested (pure).

Times are monotonic seconds.
"""

import re
from dataclasses import dataclass, field
from datetime import timedelta
from math import isfinite
from typing import Any, Final, NamedTuple

import orjson

from app.domain.catalogue.oauth import OAuthProvider

# A header line that any server takes.
TOKEN_MAX: Final = 8_000
# A token that lives longer is requested again after a year; one that is as good as over is
# used for a moment, and refused or not.
LIFETIME_MAX_S: Final = 365 * 86_400.0
LIFETIME_MIN_S: Final = 1.0
# A token is renewed up to so long before it ends, or up to a part of a short life.
RENEWED_BEFORE_S: Final = 60.0
RENEWED_BEFORE_PART: Final = 0.2
# It is not used in its very last moments: a request takes time to arrive.
UNUSED_S: Final = 1.0
UNUSED_PART: Final = 0.1
# Without a configured delay between requests that fail there is this one all the same.
DELAY_MIN: Final = timedelta(milliseconds=100)
JITTER: Final = 0.1

# RFC 6750, section 2.1, and what else is printable: providers issue that too.
_TOKEN: Final = re.compile(r"[!-~]+")
# RFC 6749, section 5.2, and what servers answer in its manner. Nothing else that a provider answers
# is repeated: it knows our secrets, and might.
_ERRORS: Final = frozenset(
    {
        "access_denied",
        "invalid_client",
        "invalid_grant",
        "invalid_request",
        "invalid_scope",
        "server_error",
        "temporarily_unavailable",
        "unauthorized_client",
        "unsupported_grant_type",
    }
)


class TokenRequestError(Exception):
    """No token was issued, for `reason`; the provider may have answered when to request again."""

    def __init__(self, reason: str, *, retry_after: timedelta | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after = retry_after


class Issued(NamedTuple):
    """What a provider has issued; without `lifetime_s` it is not known how long it is valid."""

    token: str
    lifetime_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessToken:
    """A token with its header. A later one of a source has a higher `serial`.

    From `renewed_at` on another one is requested, from `ends_at` on this one is not used.
    """

    serial: int
    header: tuple[bytes, bytes] = field(repr=False)
    renewed_at: float
    ends_at: float


def issued_in(body: bytes) -> Issued:
    """The token in the body of an answer (RFC 6749, section 5.1); TokenRequestError.

    Without a lifetime that makes sense a token is used until a subscriber refuses it.
    """
    answer = _object_in(body)
    if answer is None:
        raise TokenRequestError("its answer is not a JSON object")
    token, kind = answer.get("access_token"), answer.get("token_type", "Bearer")
    if not isinstance(token, str) or len(token) > TOKEN_MAX or not _TOKEN.fullmatch(token):
        raise TokenRequestError("there is no usable access_token in its answer")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise TokenRequestError("the token_type in its answer is not Bearer")
    return Issued(token, _seconds(answer.get("expires_in")))


def error_in(body: bytes) -> str:
    """The error code in the body of an answer, if it is one that RFC 6749 knows."""
    code = (_object_in(body) or {}).get("error")
    return code if isinstance(code, str) and code in _ERRORS else ""


def access_token(issued: Issued, *, serial: int, now: float, dice: float) -> AccessToken:
    """The token as it is used, if it has just come; `dice` is drawn from [0, 1).

    With the dice, those that were issued together are not all renewed at once.
    """
    lifetime = issued.lifetime_s
    renewed_at = ends_at = float("inf")
    if lifetime is not None:
        before = min(lifetime * RENEWED_BEFORE_PART, RENEWED_BEFORE_S)
        renewed_at = now + lifetime - before * (1 + dice)
        ends_at = now + lifetime - min(lifetime * UNUSED_PART, UNUSED_S)
    return AccessToken(
        serial=serial,
        header=(b"Authorization", b"Bearer " + issued.token.encode("ascii")),
        renewed_at=renewed_at,
        ends_at=ends_at,
    )


def pause_s(provider: OAuthProvider, *, failures: int, dice: float) -> float:
    """Seconds before the next request after so many in vain (1 and more), ±10 % by the `dice`."""
    low = max(provider.initial_delay, DELAY_MIN).total_seconds()
    high = max(provider.delay_max.total_seconds(), low)
    # Of two to the power of 30 seconds nobody waits for more.
    pause = min(low * 2.0 ** min(failures - 1, 30), high)
    return pause * (1 - JITTER + 2 * JITTER * dice)


def _object_in(body: bytes) -> dict[str, Any] | None:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def _seconds(given: object) -> float | None:
    """A lifetime, which some providers write as a string."""
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        return None
    try:
        seconds = float(given)
    except (ValueError, OverflowError):
        return None
    if not isfinite(seconds) or seconds <= 0:
        return None
    return max(LIFETIME_MIN_S, min(seconds, LIFETIME_MAX_S))

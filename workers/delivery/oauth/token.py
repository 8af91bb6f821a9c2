"""Access tokens: the responses of providers, and when to request the next token (pure).

Times are monotonic seconds.
"""

import re
from dataclasses import dataclass, field
from datetime import timedelta
from math import isfinite
from typing import Any, Final, NamedTuple

import orjson

from app.domain.catalogue.oauth import OAuthProvider

# The maximum length of a token: any server accepts a header line of this length.
TOKEN_MAX: Final = 8_000
# The limits of a token's lifetime: a longer one is requested again after a year. A token that has
# nearly expired is used for a moment.
LIFETIME_MAX_S: Final = 365 * 86_400.0
LIFETIME_MIN_S: Final = 1.0
# How long before its end a token is renewed: this time, or a part of a short lifetime.
RENEWED_BEFORE_S: Final = 60.0
RENEWED_BEFORE_PART: Final = 0.2
# The time before its end in which a token is not used, because a request takes time to arrive.
UNUSED_S: Final = 1.0
UNUSED_PART: Final = 0.1
# The shortest delay between failing requests, even if none is configured.
DELAY_MIN: Final = timedelta(milliseconds=100)
JITTER: Final = 0.1

# The characters of a token: those of RFC 6750, section 2.1, and all other printable ones, because
# providers use those too.
_TOKEN: Final = re.compile(r"[!-~]+")
# The known error codes: those of RFC 6749, section 5.2, and similar ones of real servers. Nothing
# else of a response is shown, because the provider knows our secrets and might repeat them.
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
    """No token was issued, for `reason`. The provider may have sent a time for the next request."""

    def __init__(self, reason: str, *, retry_after: timedelta | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after = retry_after


class Issued(NamedTuple):
    """A provider's response with a token.

    Without `lifetime_s`, nobody knows how long it is valid.
    """

    token: str
    lifetime_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessToken:
    """A token with its header. A later token of a source has a higher `serial`.

    From `renewed_at` on another token is requested. From `ends_at` on this token is not used.
    """

    serial: int
    header: tuple[bytes, bytes] = field(repr=False)
    renewed_at: float
    ends_at: float


def issued_in(body: bytes) -> Issued:
    """Return the token in a response body (RFC 6749, section 5.1).

    Without a valid lifetime the token is used until a subscriber refuses it.

    Raises:
        TokenRequestError: The body has no usable token.
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
    """Return the error code in a response body, if it is a known one."""
    code = (_object_in(body) or {}).get("error")
    return code if isinstance(code, str) and code in _ERRORS else ""


def access_token(issued: Issued, *, serial: int, now: float, dice: float) -> AccessToken:
    """Return the token to use, received at `now`; `dice` is a random number from [0, 1).

    The random number keeps tokens that were issued together from being renewed at the same moment.
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
    """Return how many seconds to wait after this number of `failures` in a row (at least 1).

    The result is changed by up to 10 %, as the random number `dice` says.
    """
    low = max(provider.initial_delay, DELAY_MIN).total_seconds()
    high = max(provider.delay_max.total_seconds(), low)
    # Limit the exponent: longer pauses do not occur.
    pause = min(low * 2.0 ** min(failures - 1, 30), high)
    return pause * (1 - JITTER + 2 * JITTER * dice)


def _object_in(body: bytes) -> dict[str, Any] | None:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def _seconds(given: object) -> float | None:
    """Return a lifetime in seconds. Some providers write it as a string."""
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        return None
    try:
        seconds = float(given)
    except (ValueError, OverflowError):
        return None
    if not isfinite(seconds) or seconds <= 0:
        return None
    return max(LIFETIME_MIN_S, min(seconds, LIFETIME_MAX_S))

"""Parses the responses of token endpoints (RFC 6749, section 5), without input or output."""

import re
from datetime import timedelta
from math import isfinite
from typing import Any, Final, NamedTuple

import orjson

# The maximum length of a token. Any server accepts a header line of this length.
TOKEN_MAX: Final = 8_000
# The longest lifetime of a token. Even if a token is valid for longer, a new one is requested after
# a year.
LIFETIME_MAX_S: Final = 365 * 86_400.0
# The shortest lifetime of a token. A token that expires sooner is still used for this long.
LIFETIME_MIN_S: Final = 1.0

# The allowed characters of a token: all printable ASCII characters except the space. RFC 6750,
# section 2.1, allows fewer, but providers use others too.
_TOKEN: Final = re.compile(r"[!-~]+")
# The known error codes: the codes of RFC 6749, section 5.2, and similar codes that real servers
# send. Only these codes of a response are shown. The rest may repeat our secrets, because the
# provider knows them.
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
    """No token was issued; `reason` says why.

    `retry_after` is the time after which to request a token again, if the provider has sent one.
    """

    def __init__(self, reason: str, *, retry_after: timedelta | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after = retry_after


class Issued(NamedTuple):
    """A provider's response with a token.

    If `lifetime_s` is None, the provider did not send the lifetime of the token.
    """

    token: str
    lifetime_s: float | None = None


def issued_in(body: bytes, *, length_max: int = TOKEN_MAX) -> Issued:
    """Return the token in a response body (RFC 6749, section 5.1).

    Raises:
        TokenRequestError: The body has no usable token.
    """
    answer = _object_in(body)
    if answer is None:
        raise TokenRequestError("its answer is not a JSON object")
    token, kind = answer.get("access_token"), answer.get("token_type", "Bearer")
    if not isinstance(token, str) or len(token) > length_max or not _TOKEN.fullmatch(token):
        raise TokenRequestError("there is no usable access_token in its answer")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise TokenRequestError("the token_type in its answer is not Bearer")
    return Issued(token, _seconds(answer.get("expires_in")))


def error_in(body: bytes) -> str:
    """Return the error code in a response body; empty if there is no known code."""
    code = (_object_in(body) or {}).get("error")
    return code if isinstance(code, str) and code in _ERRORS else ""


def _object_in(body: bytes) -> dict[str, Any] | None:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def _seconds(given: object) -> float | None:
    """Return a lifetime in seconds. Some providers send the number as a string."""
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        return None
    try:
        seconds = float(given)
    except (ValueError, OverflowError):
        return None
    if not isfinite(seconds) or seconds <= 0:
        return None
    return max(LIFETIME_MIN_S, min(seconds, LIFETIME_MAX_S))

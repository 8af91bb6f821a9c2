"""Sessions of readers, and the check that a form comes from our pages. Both use only cookies.

The cookie of a session has the reader's API key and the end of the session, encrypted with the
secret key of the installation. So every API process accepts the cookie. Every request checks the
API key as the REST API does, so a session ends when its key is revoked.

No cookie has the attribute `Path`. A browser then sends it to the pages beside and below the page
that set it. This also works behind a proxy that adds a prefix, which this process does not know.
"""

import hmac
import secrets
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Final

import orjson
from starlette.requests import Request
from starlette.responses import Response

from app.domain.errors import SecretUnreadableError
from app.vault import Vault

SESSION_COOKIE: Final = "angelia_session"
# The cookie of readers without a session. Their forms have a token of it, also the sign-in form.
FORM_COOKIE: Final = "angelia_form"
# How long a reader stays signed in, in seconds: a working day.
SESSION_S: Final = 12 * 3600
# The name of the form field with the token, which proves that a form came from our pages.
TOKEN_FIELD: Final = "form_token"  # noqa: S105 - the name of a field, no secret

_LOCATION: Final = ("console", "sessions", "cookie")
_FORM: Final = b"angelia console form"
_FORM_BYTES: Final = 24


class Sessions:
    """Encrypts and decrypts session cookies. `clock` returns seconds since the epoch."""

    def __init__(self, vault: Vault, *, clock: Callable[[], float] = time.time) -> None:
        self._vault = vault
        self._clock = clock

    def sealed(self, token: str) -> str:
        """Return the cookie of a session with the API key `token`.

        Raises:
            SecretKeyMissingError: The installation has no secret key.
        """
        session = {"key": token, "until": int(self._clock()) + SESSION_S}
        return self._vault.seal(orjson.dumps(session).decode(), _LOCATION)

    def key_in(self, cookie: str) -> str | None:
        """Return the API key in the cookie; None if the session has ended, or is not ours."""
        try:
            session = orjson.loads(self._vault.open(cookie, _LOCATION))
        except (SecretUnreadableError, UnicodeEncodeError):
            return None
        key, until = str(session["key"]), float(session["until"])
        return key if self._clock() < until else None


def cookies_of(request: Request, name: str) -> Sequence[str]:
    """Return the values of all cookies of this name: a browser may have one for each path."""
    pairs = ";".join(request.headers.getlist("cookie")).split(";")
    split = (pair.strip().partition("=") for pair in pairs)
    return [value for known, _, value in split if known == name and value]


def form_token(cookie: str) -> str:
    """Return the token for the forms of the reader with this cookie.

    The token is an HMAC. Its key is the cookie, which only the reader's browser knows.
    """
    return hmac.new(cookie.encode(), _FORM, sha256).hexdigest()


def is_form_of(request: Request, token: str) -> bool:
    """Whether a form with this token comes from a page that was sent to the same browser."""
    known = (*cookies_of(request, SESSION_COOKIE), *cookies_of(request, FORM_COOKIE))
    # Compare bytes, because the comparison accepts texts only if they are ASCII.
    given = token.encode()
    return any(hmac.compare_digest(form_token(each).encode(), given) for each in known)


def is_from_our_page(request: Request) -> bool:
    """Whether a page of the same origin sent the request, according to the browser's headers.

    Browsers send `Sec-Fetch-Site` on trusted connections. Otherwise `Origin` is compared with the
    requested host, which may be the host of a proxy before us. Without both headers, return True.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        return site == "same-origin"
    if origin is None:
        return True
    # The origin is `null` if the page has none.
    origin_host = origin.lower().partition("://")[2]
    hosts = (request.headers.get("host", ""), request.headers.get("x-forwarded-host", ""))
    return bool(origin_host) and origin_host in {each.lower() for each in hosts}


def new_form_cookie() -> str:
    """Return a random value of FORM_COOKIE for a reader without a session."""
    return secrets.token_urlsafe(_FORM_BYTES)


def set_cookie(request: Request, response: Response, *, name: str, value: str) -> None:
    """Set a cookie that scripts cannot read, and that requests from other sites do not have."""
    response.headers.append("set-cookie", f"{name}={value}; {_ATTRIBUTES}{_secure(request)}")


def drop_cookie(request: Request, response: Response, name: str) -> None:
    """Delete a cookie. The page must be beside the page that set the cookie."""
    response.headers.append("set-cookie", f"{name}=; Max-Age=0; {_ATTRIBUTES}{_secure(request)}")


_ATTRIBUTES: Final = "HttpOnly; SameSite=Strict"


def _secure(request: Request) -> str:
    """Return the attribute `Secure` if the reader's connection, or that to our proxy, has TLS.

    A client that forges the proxy's header gets a cookie that it cannot send back without TLS.
    """
    outside = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    return "; Secure" if "https" in {request.url.scheme, outside} else ""

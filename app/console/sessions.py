"""Sessions of readers, and the check that a form comes from a page of this console.

Both use only cookies. The cookie of a session contains the reader's API key and the end of the
session. It is encrypted with the secret key of the installation, so every API process accepts it.
Each request checks the API key as the REST API does. So a session also ends when its API key is
revoked.

No cookie has the attribute `Path`. A browser then sends the cookie to the pages beside and below
the page that set it. So cookies also work behind a proxy that adds a prefix to paths, although this
process does not know the prefix.
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

from app.console.address import scheme_of
from app.domain.errors import SecretUnreadableError
from app.vault import Vault

SESSION_COOKIE: Final = "angelia_session"
# The name of the cookie of a reader without a session. The tokens of this reader's forms are made
# from the cookie, also the token of the sign-in form.
FORM_COOKIE: Final = "angelia_form"
# How long a reader stays signed in, in seconds: a working day.
SESSION_S: Final = 12 * 3600
# The name of the form field with the token. The token proves that the form comes from a page of
# this console.
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
        """Return the API key in the cookie of a session.

        The result is None if the session has ended, or if this installation did not make the
        cookie.
        """
        try:
            session = orjson.loads(self._vault.open(cookie, _LOCATION))
        except (SecretUnreadableError, UnicodeEncodeError):
            return None
        key, until = str(session["key"]), float(session["until"])
        return key if self._clock() < until else None


def cookies_of(request: Request, name: str) -> Sequence[str]:
    """Return the values of all cookies with the name `name`.

    A browser may have several such cookies, one for each path.
    """
    pairs = ";".join(request.headers.getlist("cookie")).split(";")
    split = (pair.strip().partition("=") for pair in pairs)
    return [value for known, _, value in split if known == name and value]


def form_token(cookie: str) -> str:
    """Return the token for the forms of the reader whose cookie is `cookie`.

    The token is an HMAC with the cookie as its key. Only the reader's browser knows the cookie.
    """
    return hmac.new(cookie.encode(), _FORM, sha256).hexdigest()


def is_form_of(request: Request, token: str) -> bool:
    """Return whether the page with the form was sent to the same browser that now sends the form.

    `token` is the token in the form.
    """
    known = (*cookies_of(request, SESSION_COOKIE), *cookies_of(request, FORM_COOKIE))
    # The two tokens are compared as bytes, because `compare_digest` accepts texts only if they are
    # ASCII.
    given = token.encode()
    return any(hmac.compare_digest(form_token(each).encode(), given) for each in known)


def is_from_our_page(request: Request) -> bool:
    """Return whether a page of the same origin has sent the request.

    On trusted connections, browsers say so in the header `Sec-Fetch-Site`. On other connections,
    the header `Origin` is compared with the host of the request, or with the host that a proxy
    received. If the request has neither header, the result is True.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        return site == "same-origin"
    if origin is None:
        return True
    # A browser sends the origin `null` if the page has no origin. Such a request is refused.
    origin_host = origin.lower().partition("://")[2]
    hosts = (request.headers.get("host", ""), request.headers.get("x-forwarded-host", ""))
    return bool(origin_host) and origin_host in {each.lower() for each in hosts}


def new_form_cookie() -> str:
    """Return a random cookie for a reader without a session. The reader's form tokens need it."""
    return secrets.token_urlsafe(_FORM_BYTES)


def set_cookie(request: Request, response: Response, *, name: str, value: str) -> None:
    """Set a cookie. Scripts cannot read it, and browsers do not send it from other sites."""
    response.headers.append("set-cookie", f"{name}={value}; {_ATTRIBUTES}{_secure(request)}")


def drop_cookie(request: Request, response: Response, name: str) -> None:
    """Delete a cookie.

    The path of the page must be beside the path of the page that set the cookie.
    """
    response.headers.append("set-cookie", f"{name}=; Max-Age=0; {_ATTRIBUTES}{_secure(request)}")


_ATTRIBUTES: Final = "HttpOnly; SameSite=Strict"


def _secure(request: Request) -> str:
    """Return the cookie attribute `Secure` if the reader's browser uses TLS."""
    return "; Secure" if scheme_of(request) == "https" else ""

"""OAuth 2.0 (RFC 6749): the providers of access tokens, and how a subscription gets its tokens."""

import re
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Final
from urllib.parse import SplitResult

from app.domain.errors import ValidationFailedError
from app.domain.names import NAME_LENGTH_MAX, is_plain_name
from app.domain.network.hosts import host_problem
from app.domain.network.urls import UrlError, http_url
from app.domain.owner import Owner
from app.domain.secrets import SECRET

TEXT_MAX: Final = 1_000
SECRET_MAX: Final = 4_096
URL_MAX: Final = 2_000
DELAY_MAX: Final = timedelta(hours=1)
# The maximum number of owners of an OAuth provider. The same maximum is for the hosts that may get
# its tokens, and for the scopes of its tokens.
USES_MAX: Final = 100
# The limits of a provider's timeouts.
TIMEOUT_MIN: Final = timedelta(milliseconds=100)
TIMEOUT_MAX: Final = timedelta(seconds=60)

POLICY_FIELD: Final = "oAuthPolicy"

_MILLISECOND: Final = timedelta(milliseconds=1)
# The characters of a client id (RFC 6749, appendix A).
_CLIENT_ID: Final = re.compile(r"[ -~]+")
# The form of scopes: names with one space between them (RFC 6749, appendix A).
_SCOPE: Final = re.compile(r"[!#-\[\]-~]+(?: [!#-\[\]-~]+)*")


class GrantType(StrEnum):
    """Whose credentials a token request has.

    CLIENT_CREDENTIALS: only those of the client. PASSWORD: also those of a user.
    """

    CLIENT_CREDENTIALS = "clientCredentials"
    PASSWORD = "password"  # noqa: S105 - the name of a grant


class ClientAuthentication(StrEnum):
    """Where a token request has the id and the secret of the client. The names are from RFC 7591.

    POST: in the body of the request, as in Hermes. BASIC: in the header Authorization.
    """

    POST = "client_secret_post"
    BASIC = "client_secret_basic"


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthProvider:
    """A provider of access tokens, and how to request them.

    The rules for owners, hosts and scopes are in `app.domain.catalogue.token_grants`.

    Attributes:
        name: The name with which subscriptions refer to the provider.
        token_endpoint: The URL to which token requests are sent.
        client_id: The id with which the provider knows Angelia.
        client_secret: The secret of this client id.
        client_authentication: Where a token request has the id and the secret.
        initial_delay: The pause after a token request that failed. It doubles with each further
            failure.
        delay_max: The longest pause after a failure.
        request_timeout: How long a token request may take.
        socket_timeout: A second limit for how long a token request may take. It is ignored if it is
            0, or longer than `request_timeout`.
        owners: The owners who may use the provider in subscriptions. Admins may always use it.
        endpoint_hosts: The only hosts to which tokens of the provider are sent.
        scopes: The only scopes for which tokens of the provider are requested.
        unrestricted: Whether everybody may use the provider, for all hosts and scopes. This is so
            if a version without owners, hosts and scopes has created the provider.
        locked: Why this process cannot read the secret; empty if it can read it. If it cannot,
            `client_secret` is a mask, and no token can be requested.
    """

    name: str
    token_endpoint: str
    client_id: str
    client_secret: str = field(repr=False, metadata=SECRET)
    client_authentication: ClientAuthentication = ClientAuthentication.POST
    initial_delay: timedelta = timedelta(seconds=1)
    delay_max: timedelta = timedelta(seconds=30)
    request_timeout: timedelta = timedelta(seconds=1)
    socket_timeout: timedelta = timedelta()
    owners: tuple[Owner, ...] = ()
    endpoint_hosts: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    unrestricted: bool = False
    locked: str = ""

    def __post_init__(self) -> None:
        provider_name(self.name)
        token_endpoint(self.token_endpoint)
        if len(self.client_id) > TEXT_MAX or not _CLIENT_ID.fullmatch(self.client_id):
            raise ValidationFailedError.of(
                "clientId", f"must be 1 to {TEXT_MAX} printable ASCII characters"
            )
        _require_text(self.client_secret, path="clientSecret", length_max=SECRET_MAX)
        for name, (low, high) in _LIMITS.items():
            if not low <= getattr(self, name) <= high:
                span = f"{low // _MILLISECOND} to {high // _MILLISECOND}"
                raise ValidationFailedError.of(FIELD_NAMES[name], f"must be {span}")
        if self.delay_max < self.initial_delay:
            raise ValidationFailedError.of(
                FIELD_NAMES["delay_max"], f"must be at least {FIELD_NAMES['initial_delay']}"
            )
        self._check_uses()

    def _check_uses(self) -> None:
        for path, given in (
            ("owners", self.owners),
            ("endpointHosts", self.endpoint_hosts),
            ("scopes", self.scopes),
        ):
            if len(given) > USES_MAX:
                raise ValidationFailedError.of(path, f"must be at most {USES_MAX}")
        for index, host in enumerate(self.endpoint_hosts):
            if problem := host_problem(host):
                raise ValidationFailedError.of(f"endpointHosts.{index}", problem)
        for index, scope in enumerate(self.scopes):
            if " " in scope or len(scope) > TEXT_MAX or not _SCOPE.fullmatch(scope):
                raise ValidationFailedError.of(
                    f"scopes.{index}",
                    f'must be one name of 1 to {TEXT_MAX} printable ASCII characters without " and'
                    " \\",
                )

    @property
    def timeout(self) -> timedelta:
        """How long a token request may take in total."""
        return min(self.request_timeout, self.socket_timeout or self.request_timeout)


# The name of each time setting in the API and in errors. The names are those of Hermes.
FIELD_NAMES: Final = {
    "initial_delay": "tokenRequestInitialDelay",
    "delay_max": "tokenRequestMaxDelay",
    "request_timeout": "requestTimeout",
    "socket_timeout": "socketTimeout",
}
# The lowest and the highest value of each time setting.
_LIMITS: Final = {
    "initial_delay": (timedelta(), DELAY_MAX),
    "delay_max": (timedelta(), DELAY_MAX),
    "request_timeout": (TIMEOUT_MIN, TIMEOUT_MAX),
    "socket_timeout": (timedelta(), TIMEOUT_MAX),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthPolicy:
    """How a subscription gets the access token for its requests.

    Attributes:
        provider_name: The name of the provider that issues the token.
        grant_type: Whose credentials the token request has.
        scope: The requested scopes; empty if none is requested.
        username: The user, only for the PASSWORD grant.
        password: The user's password, only for the PASSWORD grant.
    """

    provider_name: str
    grant_type: GrantType = GrantType.CLIENT_CREDENTIALS
    scope: str = ""
    username: str = ""
    password: str | None = field(default=None, repr=False, metadata=SECRET)

    def __post_init__(self) -> None:
        provider_name(self.provider_name, path=f"{POLICY_FIELD}.providerName")
        if self.scope and (len(self.scope) > TEXT_MAX or not _SCOPE.fullmatch(self.scope)):
            raise ValidationFailedError.of(
                f"{POLICY_FIELD}.scope",
                f"must be names with single spaces between them, at most {TEXT_MAX} characters"
                ' of printable ASCII without " and \\',
            )
        for name, length_max in (("username", TEXT_MAX), ("password", SECRET_MAX)):
            given, path = getattr(self, name), f"{POLICY_FIELD}.{name}"
            if self.grant_type is GrantType.PASSWORD:
                _require_text(given or "", path=path, length_max=length_max)
            elif given:
                raise ValidationFailedError.of(path, "must be absent unless grantType is password")


def provider_name(text: str, *, path: str = "name") -> str:
    """Return `text` if a provider may have this name. `path` is the field that has the name.

    Raises:
        ValidationFailedError: The name is not allowed (field `path`).
    """
    if not is_plain_name(text) or text in {".", ".."}:
        raise ValidationFailedError.of(
            path, f"must be 1 to {NAME_LENGTH_MAX} letters, digits, '_', '.' or '-'"
        )
    return text


def token_endpoint(text: str) -> str:
    """Return the URL `text` if tokens can be requested at this URL.

    Raises:
        ValidationFailedError: Tokens cannot be requested at this URL (field `tokenEndpoint`).
    """
    try:
        problem = _token_problem(text, http_url(text))
    except UrlError as error:
        raise ValidationFailedError.of("tokenEndpoint", str(error)) from None
    if problem:
        raise ValidationFailedError.of("tokenEndpoint", problem)
    return text


def _token_problem(text: str, parts: SplitResult) -> str | None:
    if len(text) > URL_MAX:
        return f"must be at most {URL_MAX} characters"
    if "@" in parts.netloc or "#" in text:
        # A URL with a fragment is refused, because RFC 6749, section 3.2, forbids it. A URL with
        # user and password before an @ is refused, because both would be shown to users, and would
        # never be sent.
        return "must be without user, password and fragment: clientId and clientSecret say who asks"
    return None


def _require_text(text: str, *, path: str, length_max: int) -> None:
    if not 1 <= len(text) <= length_max or not text.isprintable():
        raise ValidationFailedError.of(path, f"must be 1 to {length_max} printable characters")

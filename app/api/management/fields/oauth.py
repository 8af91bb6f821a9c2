"""OAuth providers, and the `oAuthPolicy` of a subscription, with Hermes' names."""

from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from app.api.bodies.base import (
    Ignored,
    JsonObject,
    OtherFields,
    Rules,
    Schema,
    checked,
    ignored_fields,
    merged,
    parse,
)
from app.api.management.fields.owner import OwnerBody
from app.domain.catalogue.oauth import (
    DELAY_MAX,
    POLICY_FIELD,
    SECRET_MAX,
    TEXT_MAX,
    TIMEOUT_MAX,
    TIMEOUT_MIN,
    USES_MAX,
    ClientAuthentication,
    GrantType,
    OAuthPolicy,
    OAuthProvider,
    provider_name,
    token_endpoint,
)
from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.token_grants import UNRESTRICTED
from app.domain.errors import ValidationFailedError
from app.domain.names import NAME_LENGTH_MAX
from app.domain.network.urls import origin
from app.domain.secrets import MASK, MASKED

# Hermes' mask for OAuth secrets. In a request, Hermes' mask and Angelia's own mask both mean that
# the secret stays unchanged.
OAUTH_MASK: Final = "******"
MASKS: Final = frozenset({OAUTH_MASK, MASK})

_AGAIN: Final = "must be given again: tokenEndpoint has another scheme, host or port"

OTHER_FIELDS: Final = OtherFields(read_only=frozenset({"warning"}))

_MILLISECOND: Final = timedelta(milliseconds=1)
_DELAY_MAX: Final = DELAY_MAX // _MILLISECOND
_TIMEOUT_MIN: Final = TIMEOUT_MIN // _MILLISECOND
_TIMEOUT_MAX: Final = TIMEOUT_MAX // _MILLISECOND


def _length(most: int) -> dict[str, Any]:
    # Only the OpenAPI document gets these lengths. The domain checks the lengths together with the
    # characters.
    return {"minLength": 1, "maxLength": most}


ProviderName = Annotated[
    str, checked(provider_name), Field(json_schema_extra=_length(NAME_LENGTH_MAX))
]

TokenEndpoint = Annotated[str, checked(token_endpoint)]


class OAuthProviderBody(Schema):
    """An issuer of access tokens, to create or change. Times are milliseconds."""

    name: ProviderName = Field(examples=["login"])
    token_endpoint: TokenEndpoint = Field(
        description="where tokens are asked for", examples=["https://login.example.com/token"]
    )
    client_id: str = Field(examples=["angelia"], json_schema_extra=_length(TEXT_MAX))
    client_secret: str = Field(
        description="stored encrypted; a masked value keeps the stored one. It must be given again"
        " when tokenEndpoint gets another scheme, host or port",
        json_schema_extra=_length(SECRET_MAX),
    )
    token_endpoint_auth_method: Literal["client_secret_post", "client_secret_basic"] = Field(
        default="client_secret_post",
        description="id and secret go into the body of a request, or into its Authorization header",
    )
    token_request_initial_delay: int = Field(
        default=1000,
        ge=0,
        le=_DELAY_MAX,
        description="before the next request, after one that failed; it doubles with each",
    )
    token_request_max_delay: int = Field(
        default=30_000, ge=0, le=_DELAY_MAX, description="longest delay between failed requests"
    )
    request_timeout: int = Field(default=1000, ge=_TIMEOUT_MIN, le=_TIMEOUT_MAX)
    socket_timeout: int = Field(
        default=0, ge=0, le=_TIMEOUT_MAX, description="used if below requestTimeout; 0 is none"
    )

    owners: list[OwnerBody] = Field(
        default=[],
        max_length=USES_MAX,
        description="who may use it, besides admins: callers with the scope `owner:` of one of"
        " them. Without any, or without endpointHosts, only admins may use it",
        examples=[[{"source": "Plaintext", "id": "Billing"}]],
    )
    endpoint_hosts: list[str] = Field(
        default=[],
        max_length=USES_MAX,
        description="hosts of endpoints that its tokens may go to; `*.name` is all below a name."
        " If empty, only admins may use it",
        examples=[["api.example.com", "*.shop.example.com"]],
    )
    scopes: list[str] = Field(
        default=[],
        max_length=USES_MAX,
        description="scopes that may be asked for, at least one each time. Without any, all",
        examples=[["orders.write"]],
    )

    @classmethod
    def of(cls, provider: OAuthProvider) -> "OAuthProviderBody":
        """Return the body that describes `provider`, with its secret masked."""
        return cls(
            name=provider.name,
            token_endpoint=provider.token_endpoint,
            client_id=provider.client_id,
            client_secret=OAUTH_MASK,
            token_endpoint_auth_method=provider.client_authentication.value,
            token_request_initial_delay=provider.initial_delay // _MILLISECOND,
            token_request_max_delay=provider.delay_max // _MILLISECOND,
            request_timeout=provider.request_timeout // _MILLISECOND,
            socket_timeout=provider.socket_timeout // _MILLISECOND,
            owners=[OwnerBody.of(each) for each in provider.owners],
            endpoint_hosts=list(provider.endpoint_hosts),
            scopes=list(provider.scopes),
        )

    def to_domain(self, secret: str | None) -> OAuthProvider:
        """Return the provider.

        If the secret in the body is a mask, it stands for the stored `secret`.

        Raises:
            ValidationFailedError: A field is not valid.
        """
        return OAuthProvider(
            name=self.name,
            token_endpoint=self.token_endpoint,
            client_id=self.client_id,
            client_secret=_unmasked(self.client_secret, secret, path="clientSecret") or "",
            client_authentication=ClientAuthentication(self.token_endpoint_auth_method),
            initial_delay=self.token_request_initial_delay * _MILLISECOND,
            delay_max=self.token_request_max_delay * _MILLISECOND,
            request_timeout=self.request_timeout * _MILLISECOND,
            socket_timeout=self.socket_timeout * _MILLISECOND,
            owners=tuple(each.to_domain() for each in self.owners),
            endpoint_hosts=tuple(self.endpoint_hosts),
            scopes=tuple(self.scopes),
        )


class OAuthProviderRead(OAuthProviderBody):
    """An issuer of access tokens in responses."""

    warning: str | None = Field(
        default=None, description="that whoever owns a subscription may use it, and what to set"
    )


class OAuthPolicyBody(Schema):
    """How a subscription's requests get an access token."""

    grant_type: Literal["clientCredentials", "password", "usernamePassword"] = Field(
        default="clientCredentials",
        description="usernamePassword is another name of password",
    )
    provider_name: ProviderName = Field(
        description="an OAuth provider that exists", examples=["login"]
    )
    scope: str | None = Field(default=None, json_schema_extra={"maxLength": TEXT_MAX})
    username: str | None = Field(default=None, json_schema_extra=_length(TEXT_MAX))
    password: str | None = Field(
        default=None,
        description="stored encrypted; a masked value keeps the stored one",
        json_schema_extra=_length(SECRET_MAX),
    )

    @classmethod
    def of(cls, policy: OAuthPolicy) -> "OAuthPolicyBody":
        """Return the body that describes `policy`, with its password masked."""
        return cls(
            grant_type=policy.grant_type.value,
            provider_name=policy.provider_name,
            scope=policy.scope or None,
            username=policy.username or None,
            password=OAUTH_MASK if policy.password is not None else None,
        )

    def to_domain(self, current: OAuthPolicy | None) -> OAuthPolicy:
        """Return the policy.

        If its password is a mask, the mask stands for the password in `current`.

        Raises:
            ValidationFailedError: A field is not valid.
        """
        named = "password" if self.grant_type == "usernamePassword" else self.grant_type
        return OAuthPolicy(
            grant_type=GrantType(named),
            provider_name=self.provider_name,
            scope=self.scope or "",
            username=self.username or "",
            password=_unmasked(
                self.password,
                None if current is None else current.password,
                path=f"{POLICY_FIELD}.password",
            ),
        )


def new_provider(body: JsonObject, *, strict: bool) -> OAuthProvider:
    """Return the provider that a creation body describes.

    Raises:
        ValidationFailedError: The body is invalid; the error lists all problems of the body.
    """
    wanted = parse(OAuthProviderBody, merged({}, body), Rules(others=OTHER_FIELDS, strict=strict))
    return wanted.to_domain(None)


def changed_provider(current: OAuthProvider, patch: JsonObject, *, strict: bool) -> OAuthProvider:
    """Return `current` with a merge patch applied.

    Raises:
        ValidationFailedError: The result is invalid; the error lists all problems of the result.
    """
    before: JsonObject = OAuthProviderBody.of(current).model_dump()
    rules = Rules(others=OTHER_FIELDS, fixed={"name": current.name}, strict=strict)
    wanted = parse(OAuthProviderBody, merged(before, patch), rules)
    if wanted.client_secret in MASKS and origin(wanted.token_endpoint) != origin(
        current.token_endpoint
    ):
        # The stored secret must not be sent to a host that whoever gave it has not seen.
        raise ValidationFailedError.of("clientSecret", _AGAIN)
    changed = wanted.to_domain(current.client_secret)
    # If the stored secret cannot be decrypted, keep it encrypted until a request replaces it.
    kept = changed.client_secret == current.client_secret
    restricted = bool(changed.owners or changed.endpoint_hosts or changed.scopes)
    return replace(
        changed,
        locked=current.locked if kept else "",
        unrestricted=current.unrestricted and not restricted,
    )


def provider_read(provider: OAuthProvider) -> OAuthProviderRead:
    """Return the response for the provider, without its secret."""
    warning = UNRESTRICTED if provider.unrestricted else None
    return OAuthProviderRead(**OAuthProviderBody.of(provider).model_dump(), warning=warning)


def provider_described(provider: OAuthProvider) -> JsonObject:
    """Return the response for a provider as JSON."""
    return provider_read(provider).answered()


def ignored_in_provider(body: JsonObject) -> tuple[Ignored, ...]:
    """Return the fields of a provider body that have no effect."""
    return ignored_fields(OAuthProviderBody, body, OTHER_FIELDS)


def _unmasked(given: str | None, current: str | None, *, path: str) -> str | None:
    """Return `given`; if it is a mask, the secret that the mask stands for.

    Raises:
        ValidationFailedError: A mask stands for no secret.
    """
    if given not in MASKS:
        return given
    if current is None:
        raise ValidationFailedError.of(path, MASKED)
    return current


def oauth_body(subscription: Subscription) -> OAuthPolicyBody | None:
    """Return the body of the subscription's OAuth policy; None if it has none."""
    wanted = subscription.oauth
    return OAuthPolicyBody.of(wanted) if wanted else None

"""Bodies and responses with API keys."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from pydantic import Field

from app.api.bodies.base import JsonObject, OwnSchema, Schema, Text, merged, parse_own
from app.api.bodies.moments import MomentText
from app.domain.access.keys import KEY_NAME_LENGTH_MAX, SCOPES_MAX, ApiKey, Scope
from app.domain.errors import ValidationFailedError
from app.services.access.keys import MadeKey

EXAMPLE: Final[Mapping[str, object]] = {
    "name": "shop",
    "scopes": ["publish:shop.*", "group:shop"],
    "expiresIn": 31_536_000,
}


class KeyBody(OwnSchema):
    """An API key to create: its holder, and its permissions."""

    name: Text = Field(
        description=f"who it is for, 1 to {KEY_NAME_LENGTH_MAX} characters; in audit events, and in"
        " `auth.publishers` of topics",
        examples=["shop"],
    )
    scopes: list[str] = Field(
        min_length=1,
        max_length=SCOPES_MAX,
        description="admin; read (everything); owner:id or owner:source/id (what that owner has);"
        " group:name; topic:group.name; subscription:group.topic/name; publish:group.name, also"
        " publish:group.* and publish:*",
        examples=[["publish:shop.*"]],
    )
    expires_at: MomentText | None = Field(default=None, description="RFC 3339; never by default")
    expires_in: int | None = Field(
        default=None, ge=1, le=315_360_000, description="seconds from now, instead of expiresAt"
    )


class KeyRead(Schema):
    """An API key without its token. Times are as in RFC 3339."""

    id: str = Field(description="also the beginning of the token, after `ang_`")
    name: str
    scopes: tuple[str, ...]
    created_by: str
    created_at: str | None = None
    expires_at: str | None = None
    revoked_at: str | None = None
    last_used_at: str | None = Field(default=None, description="to the minute, about")


class MadeKeyRead(KeyRead):
    """A new API key with its token."""

    key: str = Field(description="the token: it is shown this once")


def key_body(body: JsonObject) -> KeyBody:
    """Return the key that a request describes.

    Raises:
        ValidationFailedError: The body is invalid; the error lists all problems of the body.
    """
    wanted = parse_own(KeyBody, merged({}, body))
    if wanted.expires_in is not None and wanted.expires_at is not None:
        raise ValidationFailedError.of("expiresIn", "must be absent when expiresAt is given")
    return wanted


def scopes_of(wanted: KeyBody) -> tuple[Scope, ...]:
    """Return the scopes of a wanted key, each scope only once.

    Raises:
        ValidationFailedError: A scope is not valid.
    """
    named = enumerate(wanted.scopes)
    scopes = (Scope.parse(text, path=f"scopes.{index}") for index, text in named)
    return tuple(dict.fromkeys(scopes))


def key_read(key: ApiKey) -> KeyRead:
    """Return the response for `key`."""
    return KeyRead(
        id=key.id,
        name=key.name,
        scopes=tuple(str(scope) for scope in key.scopes),
        created_by=key.created_by,
        created_at=_moment_text(key.created_at),
        expires_at=_moment_text(key.expires_at),
        revoked_at=_moment_text(key.revoked_at),
        last_used_at=_moment_text(key.last_used_at),
    )


def made_key_read(made: MadeKey) -> MadeKeyRead:
    """Return the response for a new key, the only one that contains the token."""
    return MadeKeyRead(**key_read(made.key).model_dump(by_alias=False), key=made.token)


def _moment_text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="seconds")

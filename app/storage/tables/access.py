"""The tables of API keys, audit events, and requests with an idempotency key."""

from datetime import datetime

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Identity,
    Index,
    Integer,
    func,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from app.storage.tables.base import Base, Json


class AccessStateRow(Base):
    """One row with the number of the last change of the API keys or of the access mode.

    Each change locks this row, so changes come one after the other.
    """

    __tablename__ = "access_state"
    __table_args__ = (
        CheckConstraint("id = 1", name="single_row"),
        CheckConstraint("mode IN ('readWrite', 'readOnly', 'readOnlyAdmin')", name="mode"),
    )

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    number: Mapped[int] = mapped_column(BigInteger)
    mode: Mapped[str]
    had_keys: Mapped[bool]


class ApiKeyRow(Base):
    """An API key, with the digest of its token. Keys that are no longer valid stay for a while."""

    __tablename__ = "api_keys"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    scopes: Mapped[list[str]]
    digest: Mapped[bytes]
    created_by: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]


class AuditEventRow(Base):
    """A change that somebody made. The row is written in the same transaction as the change."""

    __tablename__ = "audit_events"
    __table_args__ = (
        Index("ix_audit_events_resource", "kind", "name", "id"),
        Index("ix_audit_events_at", "at"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    actor: Mapped[str]
    key_id: Mapped[str | None]
    action: Mapped[str]
    kind: Mapped[str]
    name: Mapped[str]
    before: Mapped[Json | None]
    after: Mapped[Json | None]


class IdempotentRequestRow(Base):
    """A request with an idempotency key. It is claimed first; its answer sets `status`."""

    __tablename__ = "idempotent_requests"
    __table_args__ = (Index("ix_idempotent_requests_claimed_at", "claimed_at"),)

    caller: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    request: Mapped[bytes]
    claim: Mapped[str]
    claimed_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    status: Mapped[int | None] = mapped_column(Integer)
    headers: Mapped[Json] = mapped_column(server_default=text("'{}'::jsonb"))
    body: Mapped[bytes | None]

"""The tables of API keys, the API's mode, audit events, and requests with idempotency keys."""

from typing import Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from migrations.baseline.columns import time_of_transaction, time_of_writing

TABLES: Final = ("access_state", "api_keys", "audit_events", "idempotent_requests")


def create() -> None:
    """Create the tables of access."""
    _create_access_state()
    _create_api_keys()
    _create_audit_events()
    _create_idempotent_requests()


def _create_access_state() -> None:
    state = op.create_table(
        "access_state",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("had_keys", sa.Boolean(), nullable=False),
        sa.CheckConstraint("id = 1", name="ck_access_state_single_row"),
        sa.CheckConstraint(
            "mode IN ('readWrite', 'readOnly', 'readOnlyAdmin')", name="ck_access_state_mode"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_access_state"),
    )
    op.bulk_insert(state, [{"id": 1, "number": 0, "mode": "readWrite", "had_keys": False}])


def _create_api_keys() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("scopes", postgresql.JSONB(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        time_of_transaction("created_at"),
        sa.Column("expires_at", sa.DateTime(timezone=True)),
        sa.Column("revoked_at", sa.DateTime(timezone=True)),
        sa.Column("last_used_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
    )


def _create_audit_events() -> None:
    op.create_table(
        "audit_events",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        time_of_writing("at"),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text()),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("before", postgresql.JSONB()),
        sa.Column("after", postgresql.JSONB()),
        sa.PrimaryKeyConstraint("id", name="pk_audit_events"),
    )
    op.create_index("ix_audit_events_at", "audit_events", ["at"])
    op.create_index("ix_audit_events_resource", "audit_events", ["kind", "name", "id"])


def _create_idempotent_requests() -> None:
    op.create_table(
        "idempotent_requests",
        sa.Column("caller", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("request", sa.LargeBinary(), nullable=False),
        sa.Column("claim", sa.Text(), nullable=False),
        time_of_writing("claimed_at"),
        sa.Column("status", sa.Integer()),
        sa.Column(
            "headers", postgresql.JSONB(), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("body", sa.LargeBinary()),
        sa.PrimaryKeyConstraint("caller", "key", name="pk_idempotent_requests"),
    )
    op.create_index("ix_idempotent_requests_claimed_at", "idempotent_requests", ["claimed_at"])

"""Owners, in the form of current Hermes (`owner`) and of its old documents (`supportTeam`)."""

from pydantic import Field

from app.api.bodies.base import Schema, Text
from app.domain.owner import Owner

OWNER_LENGTH_MAX = 256


class OwnerBody(Schema):
    """An owner: its `source` and `id`."""

    source: Text = Field(default="Plaintext", min_length=1, max_length=OWNER_LENGTH_MAX)
    id: Text = Field(default="anonymous", min_length=1, max_length=OWNER_LENGTH_MAX)

    def to_domain(self) -> Owner:
        """Return the owner."""
        return Owner(source=self.source, id=self.id)

    @classmethod
    def of(cls, owner: Owner) -> "OwnerBody":
        """Return the body that names `owner`."""
        return cls(source=owner.source, id=owner.id)

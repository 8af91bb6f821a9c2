"""Registers of owners in Hermes' form."""

from app.api.bodies.base import Schema


class OwnerSourceRead(Schema):
    """A register of owners."""

    name: str
    autocomplete: bool = False
    deprecated: bool = False


class OwnerRead(Schema):
    """An owner in a register."""

    id: str
    name: str

"""The owner of a topic or a subscription."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """An owner as in Hermes: the register that lists the owner, and the id in it."""

    source: str = "Plaintext"
    id: str = "anonymous"

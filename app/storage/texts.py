"""Converts a text from any source to a form that PostgreSQL can store."""


def storable(text: str) -> str:
    """Return `text`, with its zero characters and lone surrogates replaced.

    PostgreSQL cannot store zero characters, nor lone surrogates (half of a UTF-16 pair).
    """
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()

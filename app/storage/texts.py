"""Text from any source in a form that PostgreSQL can store."""


def storable(text: str) -> str:
    """Return `text` with replacements for zeros and lone surrogates.

    PostgreSQL cannot store these characters.
    """
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()

"""Text from anywhere, as PostgreSQL can hold it."""


def storable(text: str) -> str:
    """`text` with replacements for what PostgreSQL's cannot hold: zeros and lone surrogates."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()

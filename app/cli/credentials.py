"""The API key of this command: from its option, else from the settings."""

from contextvars import ContextVar
from typing import Final

from app.cli.settings import settings_with

# Given before the command, it is every command's: `angelia --api-key … topic list`.
_given: Final[ContextVar[str | None]] = ContextVar("api_key", default=None)


def give_api_key(key: str) -> None:
    """Let the command that runs send `key`."""
    _given.set(key)


def api_key() -> str | None:
    """The key to send, if there is one; CliError when the settings cannot be read."""
    if given := _given.get():
        return given
    configured = settings_with().api_key
    return None if configured is None else configured.get_secret_value() or None

"""What a command that only calls the API needs of the environment.

Settings has it, too; but to read all settings takes a quarter of a second that nobody should wait
for. A test holds both to the same answers.
"""

import os
from contextvars import ContextVar
from typing import Final

from app.cli.addresses import url_of
from app.cli.errors import CliError
from app.domain.errors import FieldProblem

_HOST: Final = "127.0.0.1"
_PORT: Final = 8090
_PORT_MAX: Final = 65_535

# Given before the command, it is every command's: `angelia --api-key … topic list`.
_given: Final[ContextVar[str | None]] = ContextVar("api_key", default=None)


def give_api_key(key: str) -> None:
    """Let the command that runs send `key`."""
    _given.set(key)


def api_key() -> str | None:
    """The key to send: as given, else ANGELIA_API_KEY; None when there is none."""
    return _given.get() or _environment().get("ANGELIA_API_KEY") or None


def address(api: str | None) -> str:
    """The API's address: as given, else where ANGELIA_HOST and ANGELIA_PORT put it; CliError."""
    if api:
        return api
    environment = _environment()
    port = _port(environment.get("ANGELIA_PORT", str(_PORT)))
    return url_of(environment.get("ANGELIA_HOST", _HOST), port)


def _port(text: str) -> int:
    try:
        port = int(text)
    except ValueError:
        port = -1
    if not 0 <= port <= _PORT_MAX:
        problem = FieldProblem(path="ANGELIA_PORT", message=f"must be 0 to {_PORT_MAX}")
        raise CliError("These settings cannot be used:", details=[problem])
    return port


def _environment() -> dict[str, str]:
    # As Settings reads it: whatever the case of the names.
    return {name.upper(): text for name, text in os.environ.items()}

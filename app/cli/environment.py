"""Reads the address and the API key from the environment, for commands that only call the API.

The class Settings reads the same variables, but importing it takes a quarter of a second. A test
compares the results of both.
"""

import os
from contextvars import ContextVar
from pathlib import Path
from typing import Final

from app.cli.addresses import url_of
from app.cli.errors import CliError
from app.domain.errors import FieldProblem

_HOST: Final = "127.0.0.1"
_PORT: Final = 8090
_PORT_MAX: Final = 65_535
_KEY: Final = "ANGELIA_API_KEY"
_KEY_FILE: Final = "ANGELIA_API_KEY_FILE"

# The API key that the user gave before the command: `angelia --api-key … topic list`.
_given: Final[ContextVar[str | None]] = ContextVar("api_key", default=None)


def give_api_key(key: str) -> None:
    """Let the running command send the API key `key`."""
    _given.set(key)


def api_key() -> str | None:
    """Return the API key to send. None if there is no key.

    The key of the option `--api-key` is preferred. Otherwise the key is in the variable
    ANGELIA_API_KEY, or in the file that ANGELIA_API_KEY_FILE names.

    Raises:
        CliError: The file cannot be used.
    """
    if given := _given.get():
        return given
    environment = _environment()
    key, path = environment.get(_KEY), environment.get(_KEY_FILE)
    if not path:
        return key or None
    if key:
        raise _unusable(_KEY_FILE, f"must not be set beside {_KEY}")
    return _key_in(path)


def _key_in(path: str) -> str:
    try:
        text = Path(path).read_text("utf-8").rstrip("\r\n")
    except (OSError, ValueError):
        text = ""
    if not text:
        message = "must be the path of a text file that can be read and is not empty"
        raise _unusable(_KEY_FILE, message)
    return text


def address(api: str | None) -> str:
    """Return the API's address: `api` if it is given, otherwise ANGELIA_HOST and ANGELIA_PORT.

    Raises:
        CliError: Host or port is not valid.
    """
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
        raise _unusable("ANGELIA_PORT", f"must be 0 to {_PORT_MAX}")
    return port


def _unusable(variable: str, message: str) -> CliError:
    problem = FieldProblem(path=variable, message=message)
    return CliError("These settings cannot be used:", details=[problem])


def _environment() -> dict[str, str]:
    # The names of variables may be in upper or lower case, as for Settings.
    return {name.upper(): text for name, text in os.environ.items()}

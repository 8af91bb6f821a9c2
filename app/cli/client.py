"""The Python client for commands. Its errors become texts for a terminal."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

from angelia_client import (
    NO_RETRIES,
    AccessDeniedError,
    Angelia,
    ClientError,
    NotFoundError,
    RefusedError,
    Retries,
    UnreachableError,
)
from app.cli.environment import address, api_key
from app.cli.errors import CliError, Exit, leaves
from app.domain.errors import FieldProblem

# The retries of a command that waits for a job. They are long enough that the command survives a
# restart of the API.
WAITING: Final = Retries(count=30, delay_max=timedelta(seconds=1))

_START_ONE: Final = "Start one with `angelia up`, or name its address with --api."
_GET_IN: Final = (
    "Give a key by ANGELIA_API_KEY; who has the database makes one: angelia keys create."
)
_UNAUTHORIZED: Final = 401


@contextmanager
def connected(api: str | None, *, retries: Retries = NO_RETRIES) -> Iterator[Angelia]:
    """Yield a client for the API at `api`; without `api`, at the address in the settings.

    Errors are raised as CliError.

    The client ignores proxies in environment variables. A proxy could not reach a loopback address.
    """
    url, key = address(api), api_key()
    with errors_in_words(), Angelia(url, api_key=key, retries=retries, trust_env=False) as client:
        yield client


def in_words(error: ClientError) -> CliError:
    """Return a CliError for an error of the API or of the connection."""
    if isinstance(error, UnreachableError):
        return CliError(error.message, hint=_START_ONE, exit_code=Exit.UNREACHABLE)
    if not isinstance(error, RefusedError):
        return CliError(error.message)
    details = [FieldProblem(path=each.path, message=each.message) for each in error.details]
    hint = _GET_IN if error.status == _UNAUTHORIZED else ""
    return CliError(error.message, hint=hint, details=details, exit_code=_exit_code(error))


def _exit_code(error: RefusedError) -> Exit:
    if isinstance(error, NotFoundError):
        return Exit.NOT_FOUND
    return Exit.DENIED if isinstance(error, AccessDeniedError) else Exit.FAILED


@contextmanager
def errors_in_words() -> Iterator[None]:
    """If the `with` block raises errors of the client, raise a group of CliErrors instead."""
    try:
        yield
    except* ClientError as group:
        errors = [in_words(each) for each in leaves(group)]
        raise ExceptionGroup("the API did not do as asked", errors) from group

"""What a command ends with when it cannot do what it was asked to.

::

    CliError                    exit code 1
    ├── UnreachableError            nothing answers at the API's address
    └── RefusedError                the API answered with an error: status, code, message, details
"""

from collections.abc import Sequence

from app.domain.errors import FieldProblem


class CliError(Exception):
    """A failure told to a person: `message`, the fields that are wrong, and how to get on."""

    def __init__(
        self, message: str, *, hint: str = "", details: Sequence[FieldProblem] = ()
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = tuple(details)


class UnreachableError(CliError):
    """Nothing answers at the API's address."""


class RefusedError(CliError):
    """The API answered with an error; `code` is empty where it was not Angelia that answered."""

    def __init__(
        self, status: int, code: str, message: str, *, details: Sequence[FieldProblem] = ()
    ) -> None:
        super().__init__(message or f"the API answered with status {status}", details=details)
        self.status = status
        self.code = code

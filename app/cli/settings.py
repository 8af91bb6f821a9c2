"""Reads the settings for commands. They are from the environment, but options are preferred."""

from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from app.cli.addresses import url_of
from app.cli.errors import CliError
from app.config import Settings
from app.domain.errors import FieldProblem
from app.field_errors import error_text
from app.secret_files import variable_of


def settings_with(**flags: Any) -> Settings:  # noqa: ANN401 - each setting has a type of its own
    """Return the settings from the environment, with the options in `flags` that are not None.

    Raises:
        CliError: Settings are not valid. The error names each such setting.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    try:
        return Settings(**given)
    except ValidationError as exc:
        problems = [
            FieldProblem(path=_variable(each), message=error_text(each)) for each in exc.errors()
        ]
        raise CliError("These settings cannot be used:", details=problems) from exc


def _variable(error: ErrorDetails) -> str:
    name = str(error["loc"][0])
    known = name in Settings.model_fields
    return variable_of(Settings, name, error["input"]) if known else f"ANGELIA_{name}".upper()


def api_url(settings: Settings) -> str:
    """Return the URL of the API that has these settings, for requests from this machine."""
    return url_of(settings.host, settings.port)


def changed(settings: Settings, **changes: object) -> Settings:
    """Return a copy of the settings, with the values in `changes`."""
    given = {name: getattr(settings, name) for name in settings.model_fields_set}
    return Settings(**(given | changes))

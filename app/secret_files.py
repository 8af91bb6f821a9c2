"""Reads secret settings from files: `ANGELIA_<NAME>_FILE` for each setting that is a secret."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn, get_args

from pydantic import SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import InitErrorDetails, PydanticCustomError
from pydantic_settings import BaseSettings, EnvSettingsSource

SUFFIX: Final = "_file"


class SecretFile(SecretStr):
    """A secret that is read from its file for each use."""

    def __init__(self, path: Path) -> None:
        """Read the file once.

        Raises:
            OSError: The file cannot be read.
            ValueError: The file has no text.
        """
        text = text_of(path)
        if not text:
            raise ValueError("there is no text in it")
        super().__init__(text)
        self.path = path

    def get_secret_value(self) -> str:
        """Return the content of the file.

        If the file cannot be read, or is empty, return the content that was read last.
        """
        # Ignore an error of the file. Somebody may be replacing the file at this moment, and the
        # next use of the secret reads the file again.
        with suppress(OSError, ValueError):
            self._secret_value = text_of(self.path) or self._secret_value
        return self._secret_value


class SecretFiles(EnvSettingsSource):
    """The source of the secrets that are in files. Environment variables name these files."""

    def __call__(self) -> dict[str, Any]:
        """Return the secrets from the files that the environment names.

        Raises:
            ValidationError: A file cannot be used; the error names its environment variable.
        """
        return dict(self._secrets())

    def _secrets(self) -> Iterator[tuple[str, SecretFile]]:
        for name, field in self.settings_cls.model_fields.items():
            path = self._given(f"{name}{SUFFIX}") if is_secret(field) else None
            if path is None:
                continue
            if self._given(name) is not None:
                _refuse(name, f"must not be set beside {self.env_prefix}{name.upper()}")
            try:
                yield name, SecretFile(Path(path))
            except (OSError, ValueError):
                _refuse(name, "must be the path of a text file that can be read and is not empty")

    def _given(self, name: str) -> str | None:
        return self.env_vars.get(f"{self.env_prefix}{name}".lower()) or None


def is_secret(field: FieldInfo) -> bool:
    """Whether a setting is a secret."""
    return _mentions_secret(field.annotation)


def variables(settings: type[BaseSettings], name: str) -> tuple[str, ...]:
    """Return the names of the environment variables for a setting.

    Every setting has its own variable. A secret also has a variable for the name of its file.
    """
    own = f"{settings.model_config['env_prefix']}{name}".upper()
    if is_secret(settings.model_fields[name]):
        return own, f"{own}{SUFFIX}".upper()
    return (own,)


def variable_of(settings: type[BaseSettings], name: str, value: object) -> str:
    """Return the name of the environment variable that the setting's value comes from.

    The variable has the value itself, or the path of the file with the value.
    """
    return variables(settings, name)[-1 if isinstance(value, SecretFile) else 0]


def text_or_file(secret: SecretStr | None) -> tuple[str | None, Path | None]:
    """Return the text of a secret, or the path of its file; the other of the two is None.

    The path is returned for a secret that is read from its file for each use.
    """
    if isinstance(secret, SecretFile):
        return None, secret.path
    return (None if secret is None else secret.get_secret_value()), None


def as_text(value: object) -> str:
    """Return a setting as text for the environment.

    For a secret in a file, return the file's path.
    """
    if isinstance(value, SecretFile):
        return str(value.path.absolute())
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, tuple):
        return ",".join(str(each) for each in value)
    return str(value)


def _mentions_secret(annotation: object) -> bool:
    return annotation is SecretStr or any(map(_mentions_secret, get_args(annotation)))


def text_of(path: Path) -> str:
    """Return the secret in a file: UTF-8, without line breaks at its end.

    Raises:
        OSError: The file cannot be read.
        UnicodeDecodeError: The content is not UTF-8.
    """
    return path.read_text("utf-8").rstrip("\r\n")


def _refuse(name: str, message: str) -> NoReturn:
    kind = PydanticCustomError("secret_file", "{message}", {"message": message})
    problem = InitErrorDetails(type=kind, loc=(f"{name}{SUFFIX}",), input=None)
    raise ValidationError.from_exception_data("Settings", [problem])

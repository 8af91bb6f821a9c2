"""A secret in a file that is read for each use, so that the file can be replaced."""

from pathlib import Path

import structlog

from app.secret_files import text_of

_log = structlog.get_logger(__name__)


class RotatedSecret:
    """A secret in a file, or given as text. It may be used on any thread."""

    def __init__(self, given: str | None, path: Path | None) -> None:
        self._last = given or ""
        self._path = path

    def text(self) -> str:
        """Return the secret.

        If its file cannot be read, or is empty, return the last secret.
        """
        if self._path is None:
            return self._last
        try:
            # Keep the last secret if the file is empty, because somebody may just be writing it.
            self._last = text_of(self._path) or self._last
        except (OSError, UnicodeDecodeError) as error:
            reason = type(error).__name__
            _log.warning("kafka_password_unreadable", path=str(self._path), error=reason)
        return self._last

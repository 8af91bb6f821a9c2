"""The home folder, which has the embedded database of this machine."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from app.domain.errors import StorageUnavailableError

# The minimum free space on the disk, in bytes. PostgreSQL does not start with less space, and
# cannot log why, because its log is on the same disk.
_ROOM_LEAST: Final = 1 << 20
_SHOWN_MAX: Final = 120
_ADVICE: Final = "set ANGELIA_HOME to a folder of your own, or set ANGELIA_DATABASE_URL"


def _room_of(folder: Path) -> int:
    return shutil.disk_usage(folder).free


@contextmanager
def usable_home(home: Path, *, room_of: Callable[[Path], int] = _room_of) -> Iterator[Path]:
    """Yield the home folder, after checks that it is writable. It is created if missing.

    Raises:
        StorageUnavailableError: The folder cannot be used; the error has the reason in one line.
            System errors in the block, and a full disk, are raised as this error too.
    """
    try:
        home.mkdir(parents=True, exist_ok=True)
        folder = home.resolve()
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"room")
        yield folder
    except OSError as exc:
        raise StorageUnavailableError(_words(home, exc)) from exc
    except StorageUnavailableError as exc:
        if room_of(home) >= _ROOM_LEAST:
            raise
        message = f"ANGELIA_HOME cannot be used: {_shown(home)}: No space left on device; {_ADVICE}"
        raise StorageUnavailableError(message) from exc


def require_usable(home: Path) -> None:
    """Check that the home folder can be used, in the same way as `usable_home`.

    Raises:
        StorageUnavailableError: The folder cannot be used.
    """
    with usable_home(home):
        pass


def _words(home: Path, error: OSError) -> str:
    reason = "It is not a folder" if isinstance(error, FileExistsError) else error.strerror
    return f"ANGELIA_HOME cannot be used: {_shown(home)}: {reason or error}; {_ADVICE}"


def _shown(path: object) -> str:
    text = str(path)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"

"""A lock, so that at most one `angelia up` runs for each home folder."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.cli.errors import CliError
from app.storage.embedded.home import require_usable


@contextmanager
def only_one(home: Path, url: str) -> Iterator[None]:
    """Lock `home` for this process, and write `url` into the lock's file.

    The kernel holds the lock, and releases it when this process ends in any way. The lock's file is
    not deleted.

    Raises:
        CliError: Another process has the lock; the error has the URL of that process.
        StorageUnavailableError: The home folder cannot be written.
    """
    require_usable(home)
    with (home / "up.lock").open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            file.seek(0)
            raise CliError(
                f"Another `angelia up` is running for {home.resolve()}: {file.read().strip()}",
                hint="Use that one, stop it first, or set ANGELIA_HOME to another directory.",
            ) from exc
        file.seek(0)
        file.truncate()
        file.write(f"{url} (process {os.getpid()})\n")
        file.flush()
        yield

"""At most one `angelia up` for each home."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.cli.errors import CliError
from app.storage.embedded.home import require_usable


@contextmanager
def only_one(home: Path, url: str) -> Iterator[None]:
    """Lock `home` for this process.

    The lock belongs to the kernel and ends with its holder, however that ends; the file stays.

    Raises:
        CliError: Another process has the lock; the text has its address.
        StorageUnavailableError: The home cannot be written.
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

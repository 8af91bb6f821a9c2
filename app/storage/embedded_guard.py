"""Stops the embedded PostgreSQL when the last process that uses it has ended, however it ended.

Started by `embedded.py` beside each server, as a process of its own: what is killed with -9 cannot
stop anything. The kernel frees the users' lock when its last holder is gone; we look each second.

Usage: python -I embedded_guard.py USERS_LOCK SERVER_PID_FILE UID:GID COMMAND…
(the command stops the server, and is run as that user; empty: as ourselves)
"""

import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

LOOK_EVERY_S = 1.0


def main(lock: Path, pid_file: Path, *, user: list[int], stop: list[str]) -> None:
    """Wait until nobody uses the server, then stop it; those who come meanwhile wait for that."""
    with lock.open("rb") as file:
        pause = threading.Event()
        while not _alone(file):
            if not pid_file.exists():
                return
            pause.wait(LOOK_EVERY_S)
        if pid_file.exists():
            _become(user)
            subprocess.run(stop, check=False)  # noqa: S603 - pg_ctl, from embedded.py


def _alone(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _become(user: list[int]) -> None:
    if user:
        os.setgroups([])
        os.setgid(user[1])
        os.setuid(user[0])


# A child of nobody who would have to wait for it.
if __name__ == "__main__" and os.fork() == 0:
    lock_path, pid_path, ids, *command = sys.argv[1:]
    main(
        Path(lock_path),
        Path(pid_path),
        user=[int(number) for number in ids.split(":") if number],
        stop=command,
    )

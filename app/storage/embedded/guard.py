"""A guard process: stops the embedded PostgreSQL when the last process that uses it has ended.

`server.py` starts the guard before the server. The guard is a separate process, because a process
that is killed with -9 cannot stop the server. Each process that uses the server holds a shared
lock. The kernel releases the lock when the last of these processes has ended, and the guard checks
the lock each second. Each home folder has one guard, which holds a second lock, GUARD_LOCK.

Usage: python -I guard.py GUARD_LOCK USERS_LOCK SERVER_PID_FILE UID:GID COMMAND… (COMMAND stops the
server. It runs as the user UID:GID. If UID:GID is empty, it runs as the current user.)
"""

import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

LOOK_EVERY_S = 1.0
# The guard ends after it has found no server this many times. One time is not enough: the process
# that started the server may be killed before the server has written its process id.
LOOKS_WITHOUT_SERVER = 2


def main(users: Path, pid_file: Path, *, user: list[int], stop: list[str]) -> None:
    """Wait until no process uses the server, then stop the server.

    A process that wants to use the server meanwhile waits until the server is stopped.
    """
    pause = threading.Event()
    looks_left = LOOKS_WITHOUT_SERVER
    while looks_left:
        pause.wait(LOOK_EVERY_S)
        with users.open("rb") as file:
            if not _locked(file):
                looks_left = LOOKS_WITHOUT_SERVER
            elif pid_file.exists():
                _become(user)
                subprocess.run(stop, check=False)  # noqa: S603 - the command is from server.py
                return
            else:
                looks_left -= 1


def _locked(file: IO[bytes]) -> bool:
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


# The guard takes its lock before the fork, so the lock is held when the calling process continues.
# Only the forked child runs on as the guard, so no process has to wait for the guard's end.
if __name__ == "__main__":
    guard_path, users_path, pid_path, ids, *command = sys.argv[1:]
    with Path(guard_path).open("ab") as guard:
        if _locked(guard) and os.fork() == 0:
            main(
                Path(users_path),
                Path(pid_path),
                user=[int(number) for number in ids.split(":") if number],
                stop=command,
            )

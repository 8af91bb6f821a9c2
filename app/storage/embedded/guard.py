"""A guard process: stops the embedded PostgreSQL when the last process that uses it has ended.

`server.py` starts the guard before the server, as a separate process, because a process that is
killed with -9 cannot stop the server. All users of the server hold a lock. The kernel releases this
lock when the last user has ended, and the guard checks this each second. There is one guard for a
home folder, which holds the guard's lock.

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
# The guard ends after it has found no server this many times. A server may just have started
# without having written its pid, although the process that started it was killed.
LOOKS_WITHOUT_SERVER = 2


def main(users: Path, pid_file: Path, *, user: list[int], stop: list[str]) -> None:
    """Wait until no process uses the server, then stop the server. New users wait for the stop."""
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


# Take the lock before the fork. So the guard holds the lock when the caller continues. Only the
# forked process is the guard, so no parent has to wait for its end.
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

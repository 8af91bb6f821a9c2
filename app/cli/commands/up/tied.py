"""Runs a command that is stopped when its parent process dies: `tied.py PARENT COMMAND…`.

A supervisor that is killed cannot stop its children, so the children would continue without
supervision. On Linux, the kernel sends them a signal when the supervisor dies (prctl(2),
PR_SET_PDEATHSIG). On other systems, this module only runs the command. This module is run as a
script by its path, because it must start fast and import nothing of Angelia.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Replace this process by the command. On Linux, the kernel stops it when the parent dies."""
    parent, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != int(parent):
            sys.exit("the parent died before its child began")
    os.execv(command[0], command)  # noqa: S606 - the supervisor's own command


if __name__ == "__main__":
    main()

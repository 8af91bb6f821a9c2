"""A process that imports modules once, and then forks a child for each program to run.

`tests/servers/warm.py` starts this process by `python -P warm_parent.py SOCKET ROOT MODULE…`, and
sends requests to it on the socket. Code of Angelia is imported from the folder ROOT, which has this
version or another one. A child runs its program as `python -m` does, with an environment, a current
directory and standard streams of its own. The only difference is that the imports are already done.
The parent only imports and forks. So a child begins as clean as a new process.

At the end of a child, the functions run that Python calls at exit. Then the process ends without
destroying the interpreter, because that takes more time than most programs.
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

# The streams of a child: standard input, output and error, and a pipe to which its process id is
# written, and later its exit code.
STREAMS: Final = 4
OURS: Final = ("angelia_client", "app", "migrations", "spark", "workers")
_HEADER: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to run a program: its module, its arguments, and the state of its new process."""

    module: str
    arguments: list[str]
    environment: Mapping[str, str]
    directory: str
    # If false, modules are not imported from the current directory (`-P`).
    finds_here: bool
    new_session: bool


class Parent:
    """Forks a child for each request, until the other end of the socket is closed."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._reports: dict[int, int] = {}

    def serve(self) -> Request | None:
        """Fork a child for each request; return the request in the child.

        In the parent, return None when the other end of the socket is closed.
        """
        woken, wake = socket.socketpair()
        wake.setblocking(False)  # noqa: FBT003 - its only parameter
        signal.set_wakeup_fd(wake.fileno())
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        while True:
            ready, _, _ = select.select([self._requests, woken], [], [])
            if woken in ready:
                woken.recv(4096)
                self._report_ended()
            if self._requests not in ready:
                continue
            received = received_request(self._requests)
            if received is None:
                self._kill_left()
                return None
            request, streams = received
            if self._forked(streams, new_session=request.new_session):
                woken.close()
                wake.close()
                return request

    def _kill_left(self) -> None:
        """Kill the children that still run because their test run was killed."""
        for pid in self._reports:
            with suppress(ProcessLookupError):
                if os.getpgid(pid) == pid:
                    os.killpg(pid, signal.SIGKILL)
                else:
                    os.kill(pid, signal.SIGKILL)

    def _forked(self, streams: list[int], *, new_session: bool) -> bool:
        """Fork a child with `streams` as its standard streams; return True in the child."""
        *standard, report = streams
        pid = os.fork()
        if pid:
            self._reports[pid] = report
        else:
            if new_session:
                os.setsid()
            self._forget_parent()
            # Let the child write its process id. The reader may at once send a signal to the
            # child's group, which exists by now.
            os.write(report, b"%d\n" % os.getpid())
            for number, stream in enumerate(standard):
                os.dup2(stream, number)
            os.close(report)
        for stream in standard:
            os.close(stream)
        return pid == 0

    def _forget_parent(self) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._requests.close()
        for report in self._reports.values():
            os.close(report)

    def _report_ended(self) -> None:
        for pid in list(self._reports):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                report = self._reports.pop(pid)
                # Ignore a closed pipe: the test may be over.
                with suppress(BrokenPipeError):
                    os.write(report, b"%d\n" % os.waitstatus_to_exitcode(status))
                os.close(report)


def received_request(requests: socket.socket) -> tuple[Request, list[int]] | None:
    """Return the next request and its streams; None when the other end is closed."""
    header, streams, _, _ = socket.recv_fds(requests, _HEADER, STREAMS)
    if not header:
        return None
    length, text = int.from_bytes(header, "big"), b""
    while len(text) < length:
        text += requests.recv(length - len(text))
    fields: dict[str, Any] = json.loads(text)
    return Request(**fields), streams


def send_request(requests: socket.socket, request: Mapping[str, Any], streams: list[int]) -> None:
    """Send the fields of a request, and the file descriptors of its streams."""
    text = json.dumps(request).encode()
    socket.send_fds(requests, [len(text).to_bytes(_HEADER, "big")], streams)
    requests.sendall(text)


def become(request: Request) -> None:
    """Give this process the current directory, environment and arguments of the request.

    The objects `sys.stdin`, `sys.stdout` and `sys.stderr` stay those of the parent. They also fit
    the child, because neither process has a terminal.
    """
    os.chdir(request.directory)
    os.environ.clear()
    os.environ.update(request.environment)
    time.tzset()
    # Choose the folder for temporary files again: an import may have chosen it by the parent's
    # environment.
    tempfile.tempdir = None
    sys.argv = ["", *request.arguments]
    # Add the current directory, because the parent was started with `-P`.
    if request.finds_here:
        sys.path.insert(0, request.directory)


def import_from(root: Path, modules: list[str]) -> None:
    """Import the modules.

    Raises:
        SystemExit: A module of Angelia was imported from elsewhere than `root`.
    """
    for each in modules:
        importlib.import_module(each)
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if name.partition(".")[0] in OURS and path and not Path(path).is_relative_to(root):
            sys.exit(f"{name} is {path}, and not in {root}")


def main(number: int, root: Path, modules: list[str]) -> Request | None:
    """Import the modules, then fork.

    Return the request in a child, and None in the parent at its end.
    """
    import_from(root, modules)
    # Tell the garbage collector to skip all imported objects. They are needed until the end, and
    # children can share their memory if it does not change.
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=number) as requests:
        return Parent(requests).serve()


class ShortEnd:
    """Ends the process without destroying the interpreter, after all that Python calls at exit.

    If the exit code is not known, the process ends as usual.
    """

    def __init__(self) -> None:
        self._code: int | None = None
        # Register this function first: Python calls the functions in reverse order.
        atexit.register(self._end)

    def run(self, module: str) -> None:
        """Run a program as `python -m` does.

        An exception of the program ends the process as usual.
        """
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except SystemExit as end:
            if isinstance(end.code, int):
                self._code = end.code & 0xFF
            raise
        self._code = 0

    def _end(self) -> None:
        if self._code is None:
            return
        # If writing fails, end as usual: the interpreter then reports the error.
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self._code)


if __name__ == "__main__":
    _, socket_number, folder, *names = sys.argv
    end = ShortEnd()
    if child := main(int(socket_number), Path(folder), names):
        become(child)
        end.run(child.module)

"""A process that has imported what it is told to, and forks a child for each program to run.

`python -P warm_parent.py SOCKET ROOT MODULE…`: `tests/servers/warm.py` starts it and sends it
requests on the socket. What it imports of ours is in ROOT: this version, or another. A child runs
its program as `python -m` does, with an environment, a directory and standard streams of its own;
only the imports are done already. The parent imports and forks, and does nothing else, so a child
begins as clean as a process that was just started.
At its end, after what runs at exit, a child does not take down the interpreter: that costs more
than most programs do.
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

# Standard input, output and error; and a pipe for the process id, and later the exit code.
STREAMS: Final = 4
OURS: Final = ("angelia_client", "app", "migrations", "spark", "workers")
_HEADER: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A program to run: a module, its arguments, and what its process starts with."""

    module: str
    arguments: list[str]
    environment: Mapping[str, str]
    directory: str
    # Without: the current directory is not among the paths that modules are found on (`-P`).
    finds_here: bool
    new_session: bool


class Parent:
    """Forks a child for each request until the other end of the socket is closed."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._reports: dict[int, int] = {}

    def serve(self) -> Request | None:
        """Return a request in the child that is to run it, and None in the parent at the end."""
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
        """Kill the children that are still there because their test run was killed."""
        for pid in self._reports:
            with suppress(ProcessLookupError):
                if os.getpgid(pid) == pid:
                    os.killpg(pid, signal.SIGKILL)
                else:
                    os.kill(pid, signal.SIGKILL)

    def _forked(self, streams: list[int], *, new_session: bool) -> bool:
        """Whether this is the child, with `streams` as its standard streams."""
        *standard, report = streams
        pid = os.fork()
        if pid:
            self._reports[pid] = report
        else:
            if new_session:
                os.setsid()
            self._forget_parent()
            # By the child: who reads it may signal its group at once.
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
                # The test may be over: then nobody listens any more.
                with suppress(BrokenPipeError):
                    os.write(report, b"%d\n" % os.waitstatus_to_exitcode(status))
                os.close(report)


def received_request(requests: socket.socket) -> tuple[Request, list[int]] | None:
    """The next request and its streams; None when the other end is closed."""
    header, streams, _, _ = socket.recv_fds(requests, _HEADER, STREAMS)
    if not header:
        return None
    length, text = int.from_bytes(header, "big"), b""
    while len(text) < length:
        text += requests.recv(length - len(text))
    fields: dict[str, Any] = json.loads(text)
    return Request(**fields), streams


def send_request(requests: socket.socket, request: Mapping[str, Any], streams: list[int]) -> None:
    """Send the fields of a request, and its streams."""
    text = json.dumps(request).encode()
    socket.send_fds(requests, [len(text).to_bytes(_HEADER, "big")], streams)
    requests.sendall(text)


def become(request: Request) -> None:
    """Give this process what the request says it starts with.

    Its standard streams in Python are the parent's: those were made for what is no terminal either.
    """
    os.chdir(request.directory)
    os.environ.clear()
    os.environ.update(request.environment)
    time.tzset()
    # Else it is what the parent's environment said, should an import have asked for it.
    tempfile.tempdir = None
    sys.argv = ["", *request.arguments]
    # The parent was started with `-P`, which leaves the current directory out.
    if request.finds_here:
        sys.path.insert(0, request.directory)


def import_from(root: Path, modules: list[str]) -> None:
    """Import the modules; SystemExit if code of ours came from elsewhere than `root`."""
    for each in modules:
        importlib.import_module(each)
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if name.partition(".")[0] in OURS and path and not Path(path).is_relative_to(root):
            sys.exit(f"{name} is {path}, and not in {root}")


def main(number: int, root: Path, modules: list[str]) -> Request | None:
    """Import the modules, then fork: the request in a child, None in the parent at its end."""
    import_from(root, modules)
    # What is imported stays: nobody need look through it, and children share its memory.
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=number) as requests:
        return Parent(requests).serve()


class ShortEnd:
    """Ends the process once all else that runs at exit has run, if its exit code is known."""

    def __init__(self) -> None:
        self._code: int | None = None
        # The first to be registered is the last to be called.
        atexit.register(self._end)

    def run(self, module: str) -> None:
        """Run a program as `python -m` does. What it raises ends the process as any other."""
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
        # What cannot be written is reported by the interpreter.
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

"""Processes that begin warm are what `python -m` makes of them, in all that tests rely on."""

import os
import signal
from pathlib import Path

import pytest

from tests.e2e.cli import Place
from tests.servers.warm import WarmProcess, run_command_line, warm

PATIENCE_S = 60.0
# It ends after the main thread has.
THREAD = (
    "import threading\n"
    "main = threading.current_thread()\n"
    "threading.Thread(target=lambda: (main.join(), print('bye'))).start()\n"
    "raise SystemExit(300)"
)


class Started:
    """A program of the test's own, which is in `place`; what it writes is in a file there."""

    def __init__(self, place: Path, program: str, *arguments: str, **environment: str) -> None:
        (place / "program.py").write_text(program)
        self._output = place / "output"
        with self._output.open("wb") as output:
            self.process: WarmProcess = warm().start(
                "program",
                *arguments,
                environment=environment,
                output=output.fileno(),
                errors=output.fileno(),
                directory=place,
            )

    @property
    def output(self) -> str:
        return self._output.read_text()

    def code(self) -> int:
        return self.process.wait(PATIENCE_S)


def test_arguments_environment_and_directory_are_its_own(tmp_path: Path) -> None:
    program = (
        "import os, sys, time\n"
        "print(sys.argv[1:], sorted(os.environ), os.getcwd(), time.tzname[0], __name__)\n"
        "print(os.getpid(), file=sys.stderr)\n"
    )
    started = Started(tmp_path, program, "a", "b c", TZ="Asia/Kathmandu")
    assert started.code() == 0
    first, second = sorted(started.output.splitlines(), reverse=True)
    assert first == f"['a', 'b c'] ['TZ'] {tmp_path} +0545 __main__"
    assert second == str(started.process.pid)


@pytest.mark.parametrize(
    ("program", "code", "said"),
    [
        ("raise SystemExit(5)", 5, ""),
        ("raise SystemExit('no')", 1, "no\n"),
        ("1 / 0", 1, "ZeroDivisionError"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, ""),
        ("raise KeyboardInterrupt", -signal.SIGINT, "KeyboardInterrupt"),
        ("import atexit; atexit.register(print, 'bye')", 0, "bye\n"),
        ("print('bye', end=''); raise SystemExit", 0, "bye"),
        (THREAD, 300 & 0xFF, "bye\n"),
    ],
)
async def test_it_ends_as_any_process_does(
    tmp_path: Path, program: str, code: int, said: str
) -> None:
    started = Started(tmp_path, program)
    assert await started.process.ended() == code
    assert started.process.returncode == started.code() == code
    assert said in started.output


def test_it_does_not_take_down_the_interpreter(tmp_path: Path) -> None:
    program = "class Left:\n    def __del__(self): print('taken down')\nleft = Left()"
    started = Started(tmp_path, f"import sys\n{program}\nsys.modules['left'] = left")
    assert (started.code(), started.output) == (0, "")


def test_one_that_runs_is_ended_by_a_signal(tmp_path: Path) -> None:
    started = Started(tmp_path, "import signal; signal.pause()")
    assert started.process.returncode is None
    started.process.terminate()
    assert started.code() == -signal.SIGTERM
    started.process.kill()


def test_a_place_is_not_deserted_while_a_warm_process_runs_there(tmp_path: Path) -> None:
    place, elsewhere = Place(home=tmp_path / "home"), Place(home=tmp_path / "other" / "home")
    started = Started(tmp_path, "import signal; signal.pause()", ANGELIA_HOME=str(place.home))
    assert not place.is_deserted()
    assert elsewhere.is_deserted()
    started.process.kill()
    assert started.code() == -signal.SIGKILL
    assert place.is_deserted()


def test_dice_fall_otherwise_in_each(tmp_path: Path) -> None:
    program = "import random, uuid; print(random.random(), uuid.uuid4())"
    fallen = set()
    for _ in range(2):
        started = Started(tmp_path, program)
        assert started.code() == 0
        fallen.add(started.output)
    assert len(fallen) == 2


def test_the_command_line_says_what_it_says_when_started_by_python() -> None:
    environment = {"PATH": os.environ["PATH"], "ANGELIA_PORT": "1"}
    done = run_command_line("topic", "list", environment=environment, text=None, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("Error: No API answers")

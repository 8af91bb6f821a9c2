"""Shows the progress of a command on a terminal.

The progress is written to stderr, so that programs that read stdout do not get it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from app.cli import output


@contextmanager
def counting(what: str) -> Iterator[Callable[[int], None]]:
    """Yield a function that shows progress. Each call adds a number of finished things.

    The terminal shows the sum of these numbers.
    """
    columns = (SpinnerColumn(), TextColumn(f"{what}: {{task.completed}}"), TimeElapsedColumn())
    with Progress(*columns, console=output.err, transient=True, disable=_unseen()) as progress:
        task = progress.add_task(what, total=None)
        yield lambda count: progress.advance(task, count)


@contextmanager
def filling(what: str) -> Iterator[Callable[[float, str], None]]:
    """Yield a function that shows progress. A call gives the finished fraction (0 to 1) and a text.

    The terminal shows both.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=output.err, transient=True, disable=_unseen()) as progress:
        task = progress.add_task(what, total=1.0)
        yield lambda share, words: progress.update(
            task, completed=share, description=output.printable(f"{what}: {words}")
        )


def _unseen() -> bool:
    return not output.err.is_terminal

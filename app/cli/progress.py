"""Progress on a terminal, on stderr: what is written for programs stays what it is."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from app.cli import output


@contextmanager
def counting(what: str) -> Iterator[Callable[[int], None]]:
    """Call what it yields with each number of things that are done; their sum is shown."""
    columns = (SpinnerColumn(), TextColumn(f"{what}: {{task.completed}}"), TimeElapsedColumn())
    with Progress(*columns, console=output.err, transient=True, disable=_unseen()) as progress:
        task = progress.add_task(what, total=None)
        yield lambda count: progress.advance(task, count)


@contextmanager
def filling(what: str) -> Iterator[Callable[[float, str], None]]:
    """Call what it yields with the share that is done (0 to 1) and with words about it."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=output.err, transient=True, disable=_unseen()) as progress:
        task = progress.add_task(what, total=1.0)
        yield lambda share, words: progress.update(
            task, completed=share, description=output.printable(f"{what}: {words}")
        )


def _unseen() -> bool:
    return not output.err.is_terminal

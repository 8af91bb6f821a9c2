"""A directory whose files have the names of modules that Angelia imports. They must not be run."""

from pathlib import Path
from typing import Final

MODULES: Final = (
    *("app", "workers", "spark", "angelia_client", "migrations", "pyspark", "uvloop"),
    *("json", "logging", "asyncio", "structlog", "alembic", "pandas"),
)


class HostileDirectory:
    """Creates the directory `path`.

    A module in it records that it was run, and ends its process.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._told = path / "told"
        path.mkdir()
        program = f"open({str(self._told)!r}, 'a').write(__file__)\nraise SystemExit(86)\n"
        for name in MODULES:
            (path / f"{name}.py").write_text(program)
            (path / name).mkdir()
            for file in ("__init__.py", "__main__.py"):
                (path / name / file).write_text(program)

    @property
    def run(self) -> str:
        """The paths of the modules that were run, as one text; empty if none was run."""
        return self._told.read_text() if self._told.exists() else ""

"""What is the same for all brokers of one version is made once. So each starts in half the time.

This is Java's archive of the classes that a broker loads, and the first records of the metadata of
a new cluster. Without these files, a broker starts as usual.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_FIRST_RECORDS: Final = "bootstrap.checkpoint"


@dataclass(frozen=True, slots=True)
class Prepared:
    """The files for the brokers whose jars are in `libs`. They are stored in the folder above."""

    libs: Path

    @property
    def exists(self) -> bool:
        """Whether the files were made."""
        return self._records.exists()

    @property
    def reading(self) -> Sequence[str]:
        """The options with which Java takes classes from the archive."""
        return [f"-XX:SharedArchiveFile={self._classes}"] if self.exists else []

    @property
    def writing(self) -> Sequence[str]:
        """The options with which Java writes the archive when the program ends."""
        return [f"-XX:ArchiveClassesAtExit={self._classes}"]

    def keep(self, data: Path) -> None:
        """Store the first records of a data folder. The archive must have been written before."""
        shutil.copy(data / _FIRST_RECORDS, self._records)

    def format(self, data: Path, *, cluster: str, node: int, directory: str) -> None:
        """Make a data folder without users, as `kafka-storage format` does."""
        data.mkdir()
        shutil.copy(self._records, data / _FIRST_RECORDS)
        settings = {"version": 1, "cluster.id": cluster, "node.id": node, "directory.id": directory}
        text = "".join(f"{name}={value}\n" for name, value in settings.items())
        (data / "meta.properties").write_text(text)

    @property
    def _classes(self) -> Path:
        return self.libs.parent / "classes.jsa"

    @property
    def _records(self) -> Path:
        return self.libs.parent / _FIRST_RECORDS

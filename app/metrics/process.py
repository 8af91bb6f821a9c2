"""The operating system's metrics of this process."""

from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING

from app.metrics import catalogue
from app.metrics.readings import Readings

if TYPE_CHECKING:
    from prometheus_client import ProcessCollector


class ProcessMetrics:
    """CPU, memory and files of this process, and its version."""

    def __init__(self) -> None:
        self._version = version("angelia")

    def read(self, readings: Readings) -> None:
        """Add the metrics of the process.

        If the operating system has none, add only the version.
        """
        readings.add(catalogue.BUILD_INFO, 1, (self._version,))
        for family in self._collector.collect():
            for sample in family.samples:
                if metric := catalogue.BY_NAME.get(sample.name):
                    readings.add(metric, sample.value)

    @cached_property
    def _collector(self) -> "ProcessCollector":
        from prometheus_client import ProcessCollector  # noqa: PLC0415 - imports servers that are not used

        return ProcessCollector(registry=None)

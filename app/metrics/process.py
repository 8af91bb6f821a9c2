"""The operating system's metrics of this process."""

from importlib.metadata import version

from prometheus_client import ProcessCollector

from app.metrics import catalogue
from app.metrics.readings import Readings


class ProcessMetrics:
    """CPU, memory and files of this process, and its version."""

    def __init__(self) -> None:
        self._collector = ProcessCollector(registry=None)
        self._version = version("angelia")

    def read(self, readings: Readings) -> None:
        """Add the metrics of the process; if the system has none, add only the version."""
        readings.add(catalogue.BUILD_INFO, 1, (self._version,))
        for family in self._collector.collect():
            for sample in family.samples:
                if metric := catalogue.BY_NAME.get(sample.name):
                    readings.add(metric, sample.value)

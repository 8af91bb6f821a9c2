"""Metrics as a monitoring system reads them, with Prometheus' own parser."""

from collections.abc import Mapping
from dataclasses import dataclass

import httpx
from prometheus_client.parser import text_string_to_metric_families

Series = tuple[str, frozenset[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class Scrape:
    """All samples of one request for metrics."""

    samples: Mapping[Series, float]

    @classmethod
    def of(cls, text: str) -> "Scrape":
        samples: dict[Series, float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                series = sample.name, frozenset(sample.labels.items())
                assert series not in samples, f"{series} is there twice"
                samples[series] = sample.value
        return cls(samples)

    def named(self, name: str, **labels: str) -> list[float]:
        """Return the values of all series with this name and these labels."""
        wanted = labels.items()
        return [v for (n, found), v in self.samples.items() if n == name and wanted <= found]

    def value(self, name: str, **labels: str) -> float:
        """Return the sum of the values of all series with this name and these labels."""
        return sum(self.named(name, **labels))

    def by(self, name: str, label: str, **labels: str) -> dict[str, float]:
        """Return the sum of the values for each value of `label`. Sums of zero are left out."""
        sums: dict[str, float] = {}
        for (found_name, found), value in self.samples.items():
            if found_name == name and labels.items() <= found:
                key = dict(found)[label]
                sums[key] = sums.get(key, 0) + value
        return {key: value for key, value in sums.items() if value}


async def scraped(http: httpx.AsyncClient, path: str = "/metrics") -> Scrape:
    answer = await http.get(path)
    answer.raise_for_status()
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return Scrape.of(answer.text)

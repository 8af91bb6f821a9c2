"""The table of latencies: its name, and its columns in microseconds.

This is a separate module, because Spark tasks use it without SQLAlchemy.
"""

from typing import Final

from app.domain.latency import Figure, LatencyPart

LATENCY: Final = "analytics_latency"
LATENCY_FIGURES: Final = tuple(f"{part}_{figure}_us" for part in LatencyPart for figure in Figure)

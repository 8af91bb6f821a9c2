"""Telemetry by OTLP: spans of sampled messages, and all metrics, to an endpoint."""

"""Sends telemetry to an endpoint by OTLP: spans of sampled messages, and all metrics."""

"""Filters: which messages a subscription wants. Workers and the filter debugger share this code."""

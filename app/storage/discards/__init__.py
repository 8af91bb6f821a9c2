"""Discarded messages: records, lists, retractions, superseded discards, redrives."""

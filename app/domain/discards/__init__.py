"""Discarded messages: records, retractions, redrives."""

"""Discarded messages: lists and redrives."""

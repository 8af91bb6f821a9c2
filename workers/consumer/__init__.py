"""Cursors, offset tracking and the line a message takes from the log to its subscriber."""

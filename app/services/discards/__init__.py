"""Discarded messages: listed, and sent again."""

"""Discarded messages: recorded, listed, retracted, superseded, and sent again."""

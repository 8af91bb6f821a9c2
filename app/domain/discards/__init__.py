"""Discarded messages: recorded, retracted, redriven."""

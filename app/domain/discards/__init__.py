"""Discarded messages: how they are recorded, retracted, and sent again."""

"""Angelia: HTTP push delivery, from a message log to every subscriber."""

from app import native

# Before any other module is imported: the compiled ones, if there are any.
native.install()

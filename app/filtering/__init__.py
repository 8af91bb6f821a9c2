"""Filters: which messages a subscription wants.

Workers and the debugger of filters share this code.
"""

"""The terms of Angelia, and decisions without input or output.

The code uses only the standard library.
"""

"""The pages that people open, in a real browser."""

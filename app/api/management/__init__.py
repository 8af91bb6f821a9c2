"""The management API: routes by capability, with their bodies."""

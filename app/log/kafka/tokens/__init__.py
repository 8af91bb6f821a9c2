"""Access tokens for OAUTHBEARER, and secrets that are read again from their files."""

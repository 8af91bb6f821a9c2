"""Access tokens for OAUTHBEARER, and secrets that are read from their files again."""

"""Access tokens for subscriptions whose endpoints ask for OAuth 2.0."""

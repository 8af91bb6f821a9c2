"""What schemas mean: messages against them, and one version against the other."""

"""HTTP/1.1 connections with limits, strict framing and timeouts."""

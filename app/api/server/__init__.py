"""HTTP/1.1 connections: bounded, framed, and closed in time."""

"""`angelia demo`: a stream of shop events to three subscribers, each message accounted for."""

"""Closed models through their providers' own clients, each an optional extra that is imported when an engine starts."""

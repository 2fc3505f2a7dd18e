"""Stopping rules at work: they watch a run's outcomes and say which episodes are still needed."""

"""Statistics of scores: means with intervals, power."""

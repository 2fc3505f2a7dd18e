"""What a run is doing: statistics, live display, trackers, performance tables."""

"""Tables that every run has, whatever its suite: coverage, failures, usage, paired differences."""

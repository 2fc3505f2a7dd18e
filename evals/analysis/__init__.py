"""What is computed from finished runs: comparison, rescoring, retest."""

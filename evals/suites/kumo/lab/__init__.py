"""KUMO's laboratory: domains and books written by models, analysis of runs, training data."""

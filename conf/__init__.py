"""Hydra configuration: one file per thing that a user picks by name."""

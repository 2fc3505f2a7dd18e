"""Prefix caches of hybrid models: how large their blocks are, and which tokens of a prompt they serve."""

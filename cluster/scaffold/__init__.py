"""Packages of one's own to start from."""

"""Simulates a cluster in virtual time, with the real router, episode queue and admission control."""

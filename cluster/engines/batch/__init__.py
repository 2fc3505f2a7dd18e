"""Turns as batch jobs of a provider, at half the price: gathered, sent once, found again after a death."""

"""The models that can be named, what they need, and whether they were tried."""

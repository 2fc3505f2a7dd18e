"""Prints the page's types."""

from evals.viewer.schema.typescript import typescript

print(typescript(), end="")

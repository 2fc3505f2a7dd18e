"""Commands of the built-in suites that start runs; registered by entry points."""

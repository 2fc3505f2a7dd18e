"""The built-in suites. Each is registered by an entry point like a suite of any other package."""

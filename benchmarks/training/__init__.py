"""Training environments through the libraries that they are made for; see ``python -m benchmarks.training --help``."""

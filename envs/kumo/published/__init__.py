"""The published KUMO benchmark, imported from the user's own checkout of its repository into a folder, and read from there."""

from envs.kumo.published.importing import import_checkout
from envs.kumo.published.source import (
    MalformedFolderError,
    PublishedDomain,
    PublishedTask,
    benchmark_domains,
    open_domain,
)

__all__ = [
    "MalformedFolderError",
    "PublishedDomain",
    "PublishedTask",
    "benchmark_domains",
    "import_checkout",
    "open_domain",
]

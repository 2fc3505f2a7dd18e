"""Playing episodes: runner, router, queue, hedging, and the messages between driver and runner."""

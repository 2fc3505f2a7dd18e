"""One engine in the driver's own process, without Ray (``cluster=inline``); ``raycade watch-checkpoints`` keeps one, too."""

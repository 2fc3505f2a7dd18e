"""Plain classes as Ray actors; the only room that talks to Ray for others."""

"""Plain classes as Ray actors; the other packages reach Ray through this one."""

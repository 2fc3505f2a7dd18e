"""Our own SVG drawings; `$main`, `$shade` and `$light` stand for the shades of a color."""

"""KumO: games of elimination."""

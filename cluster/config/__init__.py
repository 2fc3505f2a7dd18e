"""From Hydra configuration to typed, checked settings; registered names."""

"""What is played: deterministic environments that know no model, no Ray and no torch."""

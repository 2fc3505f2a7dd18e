"""What is asked and scored: plans, prompts, decoding, metrics and tables. Knows no Ray and no vLLM."""

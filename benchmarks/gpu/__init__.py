"""What raycade does on a GPU, without weights and without network: ``python -m benchmarks.gpu`` (docs/gpu.md)."""

"""Watches a GPU through NVML, in a thread: utilization and memory over time."""

from __future__ import annotations

import importlib.util
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SECONDS = 0.2
"""Between samples; NVML itself averages over about as long."""
IDLE = 5
"""A GPU with less utilization, in percent, waits for work."""


def nvml() -> Any:
    """NVIDIA's library as vLLM ships it, initialized; None without an NVIDIA GPU."""
    spec = importlib.util.find_spec("vllm")
    if spec is None or not spec.submodule_search_locations:
        return None
    file = Path(spec.submodule_search_locations[0], "third_party", "pynvml.py")
    found = importlib.util.spec_from_file_location("raycade_pynvml", file)
    assert found and found.loader
    module = sys.modules[found.name] = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    try:
        module.nvmlInit()
        return module if module.nvmlDeviceGetCount() else None
    except module.NVMLError:
        return None


@dataclass
class Watch:
    """Samples the first GPU until it is stopped; without a GPU it has no samples."""

    samples: list[tuple[float, int, int]] = field(default_factory=list)
    """Time (monotonic seconds), utilization (percent), memory in use (bytes)."""

    def __enter__(self) -> Watch:
        self._library = nvml()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        if self._library is None:
            return
        device = self._library.nvmlDeviceGetHandleByIndex(0)
        while not self._stop.wait(SECONDS):
            use = self._library.nvmlDeviceGetUtilizationRates(device).gpu
            memory = self._library.nvmlDeviceGetMemoryInfo(device).used
            self.samples.append((time.monotonic(), int(use), int(memory)))

    def while_playing(self, seconds: float) -> dict[str, Any]:
        """Utilization over the last ``seconds`` in which the GPU worked; the start-up before them does not count."""
        end = max((when for when, use, _ in self.samples if use > IDLE), default=0.0)
        played = [(when, use) for when, use, _ in self.samples if end - seconds <= when <= end]
        if not played:
            return {"gpu_utilization": None, "gpu_waiting_share": None, "gpu_utilization_over_time": []}
        return {
            "gpu_utilization": sum(use for _, use in played) / len(played) / 100,
            "gpu_waiting_share": sum(use <= IDLE for _, use in played) / len(played),
            "gpu_utilization_over_time": [[round(when - played[0][0], 1), use] for when, use in played],
        }


def memory_in_use() -> int | None:
    """Bytes of the first GPU's memory that are in use; None without a GPU."""
    library = nvml()
    return int(library.nvmlDeviceGetMemoryInfo(library.nvmlDeviceGetHandleByIndex(0)).used) if library else None


def describe() -> dict[str, Any]:
    """Name, memory and driver of each GPU."""
    library = nvml()
    if library is None:
        return {"gpus": []}
    handles = [library.nvmlDeviceGetHandleByIndex(number) for number in range(library.nvmlDeviceGetCount())]
    gpus = [
        {"name": library.nvmlDeviceGetName(each), "memory": library.nvmlDeviceGetMemoryInfo(each).total}
        for each in handles
    ]
    return {"gpus": gpus, "driver": library.nvmlSystemGetDriverVersion()}

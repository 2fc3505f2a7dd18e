"""x"""

SHORTCUT_SUCCESS: dict[str, dict[str, tuple[float, float, float]]] = {}

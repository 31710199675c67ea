from collections.abc import Callable
from typing import Any
FUNCTIONS: dict[str, Callable[..., Any]] = {}

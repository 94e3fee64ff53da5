"""What the last digits of a number depend on: libraries and the model of the processor."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from platform import machine, processor
from typing import Any

import numpy as np
import scipy

SETTINGS = ("NPY_DISABLE_CPU_FEATURES", "OPENBLAS_CORETYPE")


def platform() -> dict[str, Any]:
    """Compared as a whole: where it differs, last digits may."""
    found: Any = np.show_config(mode="dicts")
    named = {name: os.environ[name] for name in SETTINGS if name in os.environ}
    return {
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "python": ".".join(map(str, sys.version_info[:2])),
        "processor": found["SIMD Extensions"].get("found", []),
        "model": _model(),
        **named,
    }


def _model() -> list[str]:
    """Sums of products are ordered by the model of the processor, whatever it is capable of."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return [machine(), processor()]
    told = dict(line.split(":", 1) for line in reversed(lines) if ":" in line)
    wanted = ("vendor_id", "cpu family", "model", "stepping")
    values = {name.strip(): value.strip() for name, value in told.items()}
    flags = hashlib.sha256(values.get("flags", "").encode()).hexdigest()[:8]
    return [*(values.get(name, "") for name in wanted), flags]

"""One virtual environment a peer, under `.peers/`: their requirements exclude each other."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".peers"
ADAPTERS = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Peer:
    """A peer: its adapter, what is installed (lower bounds: the versions that worked; upper ones
    where a later version is known to break it), and what else it needs."""

    name: str
    title: str
    packages: tuple[str, ...]
    needs: str = ""

    @property
    def python(self) -> Path:
        return FOLDER / self.name / "bin" / "python"

    @property
    def adapter(self) -> Path:
        return ADAPTERS / f"{self.name}_peer.py"

    @property
    def found(self) -> str | None:
        """Its interpreter, where it is installed."""
        return str(self.python) if self.ready else None

    @property
    def ready(self) -> bool:
        return (FOLDER / self.name / ".ready").exists()


PEERS = (
    Peer("opendp", "OpenDP", ("opendp[polars]>=0.16", "numpy", "pyarrow")),
    # 0.6.6 cannot be imported beside scikit-learn 1.9
    Peer(
        "diffprivlib",
        "diffprivlib",
        ("diffprivlib>=0.6.6", "scikit-learn>=1.7,<1.8", "pandas", "pyarrow"),
    ),
    Peer("pipelinedp", "PipelineDP", ("pipeline-dp>=0.3.1", "pandas", "pyarrow")),
    Peer(
        "tumult", "Tumult Analytics", ("tmlt.analytics>=0.21", "pyspark>=3.5,<4", "setuptools"),
        needs="java",
    ),
)  # fmt: skip
# of other work than means of persons: benchmarks/continual_*.py and benchmarks/local_frequency.py
JAX = Peer("jax", "jax_privacy", ("jax_privacy>=2.0",))
PURE_LDP = Peer(  # it does not name what it imports, and xxhash 4 breaks its local hashing
    "pureldp", "pure-ldp", ("pure-ldp>=1.2", "numpy", "scikit-learn", "statsmodels", "xxhash<4")
)
STATISTICS = Peer(  # no privacy: benchmarks/prints_beside.py
    "statsmodels",
    "statsmodels and marginaleffects",
    ("statsmodels>=0.14", "marginaleffects>=0.1", "polars<2"),
)
ALL = (*PEERS, JAX, PURE_LDP)


def interpreter() -> str:
    """Python 3.11 or 3.12 if there is one (Tumult Analytics needs it), else this one."""
    if sys.version_info[:2] in ((3, 11), (3, 12)):
        return sys.executable
    return shutil.which("python3.12") or shutil.which("python3.11") or sys.executable


def setup(peers: tuple[Peer, ...]) -> list[str]:
    """Make the environments that are not there yet. Returns one line a peer that failed."""
    failed = []
    for peer in peers:
        if peer.needs and shutil.which(peer.needs) is None:
            failed.append(f"{peer.title}: needs {peer.needs} on this machine")
            continue
        if peer.ready:
            continue
        folder = FOLDER / peer.name
        print(f"== {peer.title}: {folder}", flush=True)
        steps = [
            [interpreter(), "-m", "venv", "--clear", str(folder)],
            [str(peer.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
             *peer.packages],
        ]  # fmt: skip
        if all(subprocess.run(step, check=False).returncode == 0 for step in steps):
            (folder / ".ready").touch()
        else:
            failed.append(f"{peer.title}: pip could not install {' '.join(peer.packages)}")
    return failed

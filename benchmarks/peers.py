"""The suite against other packages: accuracy of one mean and of means by group, vectors, time and
memory.

Every peer runs in a virtual environment of its own under `.peers/`, as a subprocess: records in,
estimates out. Peers get public bounds; privmean gets the budget and nothing else.

    python benchmarks/peers.py --setup                   make the environments
    python benchmarks/peers.py [--quick]                 run everything, publish all tables
    python benchmarks/peers.py --work accuracy --only opendp tumult
    python benchmarks/peers.py --work groups             means by group
    python benchmarks/peers.py --work streams            running means, against jax_privacy
    python benchmarks/peers.py --publish                 tables of the answers that are kept
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from peers import accuracy, groups, scale, vectors
from peers.environments import ALL, JAX, PURE_LDP, Peer, setup

EPSILONS = (1.0, 0.5, 2.0)
NAMES = ("privmean", "baseline", *(peer.name for peer in ALL))
TABLES = {"accuracy": accuracy, "groups": groups, "vectors": vectors, "scale": scale}
# other work than means of persons has scripts of its own, which publish by themselves
SCRIPTS: dict[str, tuple[Peer, tuple[str, ...]]] = {
    "streams": (JAX, ("continual_peer.py", "continual_throughput.py")),
    "reports": (PURE_LDP, ("local_frequency.py",)),
}


def script(work: str, quick: bool) -> None:
    peer, names = SCRIPTS[work]
    for name in names:
        print(f"== {work}: {peer.title}, {name}", flush=True)
        command = [sys.executable, str(Path(__file__).parent / name)]
        subprocess.run([*command, *(["--quick"] if quick else [])], check=False)


def main() -> None:
    works = [*TABLES, *SCRIPTS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--setup", action="store_true", help="make the environments, run nothing")
    parser.add_argument("--publish", action="store_true", help="run nothing, publish what is kept")
    parser.add_argument("--quick", action="store_true", help="forty releases a cell, epsilon = 1")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--work", nargs="+", choices=works, default=works)
    parser.add_argument("--tables", nargs="+", help="of accuracy and vectors; nothing is published")
    kinds = ("generous", "true")
    parser.add_argument("--bounds", nargs="+", choices=kinds, default=kinds, help="of the peers")
    parser.add_argument("--routes", nargs="+", help="of the peers' accuracy")
    parser.add_argument("--runs", type=int, help="releases a cell")
    parser.add_argument("--repeats", type=int, default=2, help="processes a cell of scale")
    options = parser.parse_args()
    if options.setup:
        chosen = tuple(peer for peer in ALL if peer.name in options.only)
        for line in setup(chosen):
            print(line)
        return
    if not any(peer.ready for peer in ALL):
        print("no other package is installed: python benchmarks/peers.py --setup")
        return
    runs = options.runs or (40 if options.quick else 100)
    epsilons = EPSILONS[:1] if options.quick else EPSILONS
    sizes = scale.SIZES[:1] if options.quick else scale.SIZES
    if not options.publish:
        if "accuracy" in options.work:
            bounds = tuple(options.bounds)
            accuracy.run(options.only, runs, epsilons, options.tables, bounds, options.routes)
        if "groups" in options.work:
            groups.run(options.only, min(runs, 40), options.tables)
        if "vectors" in options.work:
            vectors.run(options.only, runs, options.tables)
        if "scale" in options.work:
            scale.run(options.only, options.repeats, sizes)
        for name, (peer, _) in SCRIPTS.items():
            if name in options.work and peer.name in options.only:
                script(name, options.quick)
    if options.publish or not options.tables:
        for name in options.work:
            if name in TABLES:
                TABLES[name].publish()


if __name__ == "__main__":
    main()

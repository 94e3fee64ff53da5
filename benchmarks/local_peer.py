"""Runs pure-ldp's frequency oracles; called by local_frequency.py with that package's own Python.

Reads an .npz with items (0..d-1), d, epsilon, runs, and prints one JSON object a line.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

import numpy as np

warnings.simplefilter("ignore")


def oracles(epsilon: float, d: int):
    """name -> (make client and server, cost in microseconds a user, roughly)."""
    from pure_ldp.frequency_oracles import (
        DEClient,
        DEServer,
        FastLHClient,
        FastLHServer,
        HadamardMechClient,
        HadamardMechServer,
        HadamardResponseClient,
        HadamardResponseServer,
        HEClient,
        HEServer,
        LHClient,
        LHServer,
        UEClient,
        UEServer,
    )

    same = {"index_mapper": lambda x: x}

    def hadamard():
        server = HadamardResponseServer(epsilon, d, **same)
        return HadamardResponseClient(epsilon, d, server.get_hash_funcs(), **same), server

    def fast():
        server = FastLHServer(epsilon, d, k=1000, use_olh=True, **same)
        client = FastLHClient(epsilon, d, k=1000, use_olh=True, **same)
        return client, server

    return {
        "Hadamard response": hadamard,
        "optimized unary": lambda: (
            UEClient(epsilon, d, use_oue=True, **same),
            UEServer(epsilon, d, use_oue=True, **same),
        ),
        "symmetric unary": lambda: (UEClient(epsilon, d, **same), UEServer(epsilon, d, **same)),
        "direct": lambda: (DEClient(epsilon, d, **same), DEServer(epsilon, d, **same)),
        "threshold histogram": lambda: (
            HEClient(epsilon, d, **same),
            HEServer(epsilon, d, use_the=True, **same),
        ),
        "Hadamard mechanism": lambda: (
            # it fails unless the domain is a power of two
            HadamardMechClient(epsilon, 1 << d.bit_length(), t=1, use_optimal_t=True, **same),
            HadamardMechServer(epsilon, 1 << d.bit_length(), t=1, use_optimal_t=True, **same),
        ),
        "fast local hashing": fast,
        "local hashing": lambda: (
            LHClient(epsilon, d, use_olh=True, **same),
            LHServer(epsilon, d, use_olh=True, **same),
        ),
    }


def main() -> None:
    from pure_ldp.core.prob_simplex import project_probability_simplex

    given = np.load(sys.argv[1])
    items, d, epsilon = given["items"].tolist(), int(given["d"]), float(given["epsilon"])
    names = [str(name) for name in given["names"]]
    runs, seconds = int(given["runs"]), float(given["seconds"])
    truth = np.bincount(items, minlength=d) / len(items)
    for name in names:
        raw, projected, spent = [], [], []
        try:
            for _ in range(runs):
                client, server = oracles(epsilon, d)[name]()
                start = time.process_time()
                for item in items:
                    server.aggregate(client.privatise(item))
                spent.append(time.process_time() - start)
                found = np.array(
                    [server.estimate(v, suppress_warnings=True) for v in range(d)], dtype=float
                ) / len(items)
                raw.append(float(abs(found - truth).max()))
                projected.append(float(abs(project_probability_simplex(found) - truth).max()))
                if sum(spent) > seconds:
                    break
        except Exception as error:  # a peer that fails is reported as such
            print(json.dumps({"name": name, "error": f"{type(error).__name__}: {error}"[:200]}))
            continue
        answer = {"name": name, "raw": raw, "projected": projected, "seconds": spent}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

"""The suite against other packages: tables, bounds, baselines, and one adapter a peer.

Adapters (`*_peer.py`) run inside the peer's own virtual environment and need nothing of privmean;
everything else runs in privmean's. `benchmarks/peers.py` is the command.
"""

"""The blocks of docs/peers.md that are marked as privmean's run as they stand."""

import re
from pathlib import Path

import duckdb
import numpy as np
import pytest

import privmean as pm

PAGE = Path(__file__).parents[2] / "docs" / "peers.md"
BLOCKS = [
    block
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    if block.startswith("# privmean\n")
]


def test_every_peer_has_a_block_of_ours():
    assert len(BLOCKS) == PAGE.read_text().count("# privmean\n") >= 7


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_block_runs(number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    duckdb.execute(
        "COPY (SELECT i % 1500 AS person, 10 + (i % 7)::DOUBLE AS y FROM range(6000) AS r(i)) "
        "TO 'records.parquet' (FORMAT parquet)"
    )
    rng = np.random.default_rng(number)
    names = {
        "pm": pm,
        "person_means": rng.normal(10, 1, 1500),
        "rows": rng.normal(10, 1, (3000, 5)),
    }
    exec(BLOCKS[number], names)  # a block of our own page
    if "stream" in names:
        names["stream"].close()
    if "ledger" in names:
        assert (tmp_path / "spent.ledger").exists()

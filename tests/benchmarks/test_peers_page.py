"""docs/peers.md shows our call beside each other package's; tests/test_pages.py runs ours."""

from doc_pages import DOCS, blocks


def test_every_peer_has_a_block_of_ours():
    found = [block for block in blocks(DOCS / "peers.md") if block.kind == "python"]
    ours = [block for block in found if block.text.startswith("# privmean\n")]
    theirs = [block for block in found if block.mark == "not run"]
    assert len(ours) >= 7
    assert len(theirs) == 5
    assert all(block.runs for block in ours)

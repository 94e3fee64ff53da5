"""Lemmas proved for every width by a proof assistant, where one is installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

MACHINE = Path(__file__).parents[2] / "docs" / "proofs" / "machine"
PROOFS = sorted(MACHINE.glob("*.v"))


def checked(folder, text):
    (folder / "proof.v").write_text(text)
    return subprocess.run(
        ["coqc", "proof.v"], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.skipif(shutil.which("coqc") is None, reason="coqc is not installed")
@pytest.mark.parametrize("proof", PROOFS, ids=lambda path: path.stem)
def test_the_proofs_are_accepted(proof, tmp_path):
    text = proof.read_text()
    assert checked(tmp_path, text).returncode == 0
    # a bound that is 1 smaller is not
    assert "<= 4 * K * K." in text
    false = text.replace("<= 4 * K * K.", "<= 4 * K * K - 1.", 1)
    assert checked(tmp_path, false).returncode != 0


def test_nothing_is_admitted():
    assert PROOFS
    for proof in PROOFS:
        text = proof.read_text()
        assert not {"Admitted", "admit", "Axiom", "Parameter"} & set(text.replace(".", " ").split())

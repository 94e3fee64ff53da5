"""Lemmas proved for every width by a proof assistant, where one is installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

MACHINE = Path(__file__).parents[2] / "docs" / "proofs" / "machine"
PROOFS = sorted(MACHINE.glob("*.v"))
FALSE = {  # statements that a little change makes false: no proof of them may be accepted
    "joint_release": [("<= 4 * K * K.", "<= 4 * K * K - 1.")],
    "bulk_noise": [
        (
            "of_block N w A E c = c / (2 * INR N * INR w).",
            "of_block N w A E c = c / INR N / INR w.",
        ),
        ("INR A <= c -> c <= INR E -> total", "INR A <= c + 1 -> c <= INR E -> total"),
        ("c * INR s * 2 ^ (m + 1) <= 1 ->", "c * INR s * 2 ^ m <= 1 ->"),
        ("(i * 2 ^ b + u + 1) * 2 ^ g <= C * low ->", "(i * 2 ^ b + u) * 2 ^ g <= C * low ->"),
    ],
}


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
    for true, changed in FALSE[proof.stem]:
        assert text.count(true) >= 1
        assert checked(tmp_path, text.replace(true, changed, 1)).returncode != 0, changed


def test_nothing_is_admitted():
    assert PROOFS
    for proof in PROOFS:
        text = proof.read_text()
        assert not {"Admitted", "admit", "Axiom", "Parameter"} & set(text.replace(".", " ").split())

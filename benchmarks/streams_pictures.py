"""Pictures of the released path with its band, one for each of three goals, from the same seed.

Data are made: 512 persons with 16 records each in [0, 1], whose mean rises from .4 to .6. Writes
docs/pictures/streams-<goal>.svg; the noise is simulated.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from privmean.noise.noise_source import SimulatedNoise
from privmean.streams.mean_stream import MeanStream
from privmean.streams.run_stream import svg, thin
from privmean.streams.stream_plan import plan

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"
PERSONS, MOST = 512, 16
POINTS = 300


def main() -> None:
    n = PERSONS * MOST
    made = np.random.default_rng(20)
    values = np.clip(made.normal(np.linspace(0.3, 0.7, n), 0.2), 0, 1)
    FOLDER.mkdir(exist_ok=True)
    for goal in ("shown", "rmse", "final"):
        chosen = plan(
            epsilon=1.0,
            delta=1e-6,
            bounds=(0.0, 1.0),
            max_participations=MOST,
            min_separation=PERSONS,
            steps=n,
            goal=goal,
        )
        stream = MeanStream.from_plan(chosen, noise=SimulatedNoise(7))
        released = stream.extend([i % PERSONS for i in range(n)], values)
        picture = svg(
            thin(released, POINTS),
            [f"goal {goal} (simulated noise)"],
            span=(0.0, 1.0),
            alone=True,
            label=f"released mean by step, goal {goal}: {chosen.outlook}",
        )
        target = FOLDER / f"streams-{goal}.svg"
        target.write_text(picture + "\n")
        print(f"{target.name}: {chosen.outlook}")


if __name__ == "__main__":
    main()

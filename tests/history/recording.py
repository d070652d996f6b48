"""A process that records a cluster, to be killed: says after each step what it has told by then.

`python -m tests.history.recording FOLDER virtual|real`
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from kai_ray.cluster.clock import SystemClock, VirtualClock
from tests.sight.worlds import World


def main(folder: Path, clock: str) -> None:
    virtual = clock == "virtual"
    with World("2x4", folder, clock=VirtualClock() if virtual else SystemClock()) as w:
        w.queue("team", 8)
        if not virtual:
            w.cluster.start()
        for number in range(100_000):
            w.job(f"job-{number}", "team", pods=2, seconds=45 if virtual else 1)
            if virtual:
                w.run(20)
            else:
                time.sleep(0.3)
            # What is late (a loss that settles) is told with an earlier time.
            told = [(e.at_s, e.name, e.what) for e in list(w.told)]
            print(json.dumps({"now": w.now, "told": told}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

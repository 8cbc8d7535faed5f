"""How often what is concluded of planted data is right, on a large scale.

Usage: PYTHONPATH=workflow:tests python perf/conclusions.py [DATASETS] [SEED] [EXAMPLES]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from analysis.study.choosing import score


def main() -> None:
    """Print the share of false statements of each kind, and examples of them."""
    given = [int(each) for each in sys.argv[1:]]
    datasets, seed, examples = (*given, *(300, 1, 10)[len(given) :])
    with tempfile.TemporaryDirectory() as folder:
        found = score(range(seed, seed + datasets), Path(folder))
    print(found.text())
    for example in found.examples[:examples]:
        print(example[:1200])


if __name__ == "__main__":
    main()

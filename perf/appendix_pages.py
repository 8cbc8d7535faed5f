"""What a long appendix costs: the report with many more runs in it, its pages, time and memory.

PYTHONPATH=workflow python perf/appendix_pages.py --results results/h200 --runs 15000
"""

from __future__ import annotations

import argparse
import io
import json
import resource
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pikepdf

from flashlab.report.content import compose
from flashlab.report.render import to_html, to_pdf


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--runs", type=int, required=True, help="rows of the appendix")
    arguments = parser.parse_args()
    config_file = arguments.results / "plan" / "config.json"
    config = json.loads(config_file.read_text(encoding="utf-8"))
    report = compose(config, arguments.results, None, [])
    rows = report.runs.rows
    more = [replace(rows[i % len(rows)], id=f"extra-{i}") for i in range(arguments.runs)]
    longer = replace(report, runs=replace(report.runs, rows=[*rows, *more]))
    start = time.perf_counter()
    pdf = to_pdf(to_html(longer), arguments.results, [], datetime.now(UTC))
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    with pikepdf.open(io.BytesIO(pdf)) as opened:
        pages = len(opened.pages)
    print(f"{len(rows) + len(more)} runs: {pages} pages, {seconds:.1f} s, {peak:.0f} MiB")


if __name__ == "__main__":
    main()

"""The time until a report's page can be used, in Chromium, from the disk, caches empty.

Usage: python perf/page_load.py [PAGE.html] [LOADS]; it needs Playwright and Debian's Chromium.
Prints the medians from the start of the navigation to the page's elements (they can be read and
scrolled), to its scripts (tables and menus answer), and to its last picture.
"""

from __future__ import annotations

import shutil
import statistics
import sys
from collections import defaultdict
from pathlib import Path

from playwright.sync_api import sync_playwright

TIMES = """
() => {
  const { domInteractive, domContentLoadedEventEnd, loadEventEnd } =
    performance.getEntriesByType("navigation")[0];
  return { elements: domInteractive, scripts: domContentLoadedEventEnd, pictures: loadEventEnd };
}
"""


def main() -> None:
    """Load the page again and again, each time in a browser context of its own."""
    page_file = Path(sys.argv[1] if len(sys.argv) > 1 else "report/lab5.html").resolve()
    loads = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    found = defaultdict(list)
    with sync_playwright() as playwright:
        path = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for _ in range(loads):
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(page_file.as_uri(), wait_until="load")
            for name, milliseconds in page.evaluate(TIMES).items():
                found[name].append(milliseconds)
            page.close()
        browser.close()
    print(f"{page_file.name}, {page_file.stat().st_size / 1e6:.2f} MB, {loads} loads, ms")
    for name, each in found.items():
        print(f"{name}: {statistics.median(each):.0f} ({min(each):.0f} to {max(each):.0f})")


if __name__ == "__main__":
    main()

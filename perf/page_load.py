"""The time until a report's page can be read, in Chromium, from the disk, caches empty.

Medians of ten loads in ms from the start of the navigation: to its elements, to its scripts (tables
and menus answer) and to its last picture; with the size of the file.

Usage, with Playwright and Chromium: python perf/page_load.py [PAGE.html]
"""

from __future__ import annotations

import shutil
import statistics
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

if __name__ == "__main__":
    file, found = Path([*sys.argv[1:], "report/lab5.html"][0]).resolve(), []
    with sync_playwright() as playwright:
        path = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for _ in range(10):
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(file.as_uri(), wait_until="load")
            found.append(page.evaluate("() => performance.getEntriesByType('navigation')[0]"))
            page.close()
    print(f"{file.name}, {file.stat().st_size / 1e6:.2f} MB")
    for name in ("domInteractive", "domContentLoadedEventEnd", "loadEventEnd"):
        print(f"{name}: {statistics.median(each[name] for each in found):.0f} ms")

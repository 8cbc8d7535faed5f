"""Make the two font files of this folder from the static files of Noto Sans TC.

Usage: python subset.py FOLDER, the unpacked npm package @expo-google-fonts/noto-sans-tc.
"""

import sys
from pathlib import Path

from fontTools import subset

EXTRA = ""
"""Characters beyond Big5 level 1 that a name or a remark needs."""

SIGNS = "αβγδεζηθικλμνξπρστυφχψωΔΣΩ∞≈≠≤≥±×÷·−–—‘’“”…•→←↑↓↔√∝∈½¼¾²³¹⁴₂✓□■▲△●○◆◇※"
WEIGHTS = {"Regular": "400Regular", "Bold": "700Bold"}
LAYOUT_FEATURES = "kern,palt,halt,vert,locl,ccmp,liga,mark,tnum"


def big5_level_1() -> str:
    """Punctuation, signs and the 5,401 most common Han characters of Big5."""
    trails = [*range(0x40, 0x7F), *range(0xA1, 0xFF)]
    codes = (bytes([lead, trail]) for lead in range(0xA1, 0xC7) for trail in trails)
    return "".join(code.decode("big5", errors="ignore") for code in codes)


def main(package: Path) -> None:
    """Write both subsets beside this file."""
    latin = "".join(map(chr, [*range(0x20, 0x7F), *range(0xA0, 0x180)]))
    text = big5_level_1() + latin + SIGNS + EXTRA
    for name, source in WEIGHTS.items():
        subset.main(
            [
                str(package / source / f"NotoSansTC_{source}.ttf"),
                f"--text={text}",
                f"--layout-features={LAYOUT_FEATURES}",
                f"--output-file={Path(__file__).parent / f'NotoSansTC-{name}.ttf'}",
            ]
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))

// Runs before anything is shown: the theme and the language that the reader chose last time.
"use strict";

const ROOT = document.documentElement;
const SYSTEM_IS_DARK = matchMedia("(prefers-color-scheme: dark)");
const DEFAULTS = { theme: "auto", language: "both" };

// A browser may refuse storage, as in a private window; a choice then lasts as long as the page.
function remembered(choice) {
  try {
    return localStorage.getItem(`flashlab-${choice}`) ?? DEFAULTS[choice];
  } catch {
    return DEFAULTS[choice];
  }
}

function applyTheme(chosen) {
  const system = SYSTEM_IS_DARK.matches ? "dark" : "light";
  ROOT.dataset.theme = chosen === "auto" ? system : chosen;
}

ROOT.classList.add("js");
ROOT.dataset.language = remembered("language");
applyTheme(remembered("theme"));

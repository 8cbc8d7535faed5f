// Sorting, filtering, and one language at a time. Without it, all of the page is there.
"use strict";

const ROOT = document.documentElement;
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

// A browser may refuse storage, as in a private window; a choice then lasts as long as the page.
function remembered() {
  try {
    return localStorage.getItem("flashlab-language") ?? "both";
  } catch {
    return "both";
  }
}

function show(language) {
  ROOT.dataset.language = language;
  for (const button of all("[data-language]", document.body)) {
    button.setAttribute("aria-pressed", button.dataset.language === language);
  }
  try {
    localStorage.setItem("flashlab-language", language);
  } catch {
    // Not remembered.
  }
}

// The number that a cell begins with, thousands with commas, after any sign such as ×; else none.
function numberIn(cell) {
  const found = cell?.textContent.replaceAll(",", "").match(/-?\d+(\.\d+)?(e-?\d+)?/);
  return found ? Number(found[0]) : NaN;
}

function compared(one, other, column) {
  const [a, b] = [one, other].map((row) => row.cells[column]);
  const [x, y] = [numberIn(a), numberIn(b)];
  if (column && !(isNaN(x) && isNaN(y))) return isNaN(x) ? 1 : isNaN(y) ? -1 : x - y;
  return (a?.textContent ?? "").localeCompare(b?.textContent ?? "");
}

// A click sorts up, the next one down; rows without a number stay last.
function sort(table, heading, column) {
  const isUp = heading.getAttribute("aria-sort") !== "ascending";
  for (const each of all("th[aria-sort]", table)) each.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", isUp ? "ascending" : "descending");
  const [body] = table.tBodies;
  const [fixed, rows] = [true, false].map((is) =>
    [...body.rows].filter((row) => row.classList.contains("work") === is),
  );
  const lacking = column ? rows.filter((row) => isNaN(numberIn(row.cells[column]))) : [];
  const known = rows.filter((row) => !lacking.includes(row));
  known.sort((one, other) => (isUp ? 1 : -1) * compared(one, other, column));
  body.append(...fixed, ...known, ...lacking);
}

// Rows of tables that hold every word; headings, and tables without such a row, stay.
function filter(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  for (const table of all("table[data-sorts]")) {
    const rows = [...table.tBodies[0].rows];
    const found = rows.filter((row) => {
      const said = row.textContent.toLowerCase();
      return words.every((word) => said.includes(word));
    });
    for (const row of rows) {
      row.hidden = found.length > 0 && !found.includes(row) && !row.classList.contains("work");
    }
  }
}

for (const table of all("table[data-sorts]")) {
  const headings = [...table.tHead.rows].at(-1).cells;
  [...headings].forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    if (!button.textContent.trim()) button.textContent = "↕";
    button.addEventListener("click", () => sort(table, heading, column));
    heading.append(button);
  });
}
for (const button of all("[data-language]", document.body)) {
  button.addEventListener("click", () => show(button.dataset.language));
}
const search = document.querySelector("nav input");
search.addEventListener("input", () => filter(search.value));
document.querySelector(".tools").hidden = false;
show(remembered());

// The page's own conveniences: one language at a time, implementations shown and hidden, tables
// sorted by a column, figures large. Without this script everything is there, in both languages.
"use strict";

const all = (selector, root = document) => [...root.querySelectorAll(selector)];

// One language, or both.

const LANGUAGES = [...new Set(all("[data-language]").map((button) => button.dataset.language))].filter(
  (language) => language !== "both",
);

function showLanguage(chosen) {
  for (const part of all("body [lang]")) {
    if (part.closest(".tools")) continue;
    const hidden = chosen !== "both" && LANGUAGES.includes(part.lang) && part.lang !== chosen;
    part.classList.toggle("removed", hidden);
  }
  document.body.classList.toggle("alone", chosen !== "both");
  document.documentElement.lang = chosen === "both" ? LANGUAGES[0] : chosen;
  for (const button of all("[data-language]")) {
    button.setAttribute("aria-pressed", String(button.dataset.language === chosen));
  }
}

// Implementations: rows, statements and what the figures draw of them.

function showImplementations() {
  const shown = new Set(all("[data-show]:checked").map((box) => box.dataset.show));
  for (const part of all("[data-implementation]")) {
    part.classList.toggle("removed", !shown.has(part.dataset.implementation));
  }
  for (const part of all("[data-implementations]")) {
    const about = part.dataset.implementations.split(" ").filter(Boolean);
    part.classList.toggle("removed", about.some((name) => !shown.has(name)));
  }
  for (const body of all("tbody")) showLabels(body);
}

// Labels of groups: a cell of the first two columns that repeats the one above is empty. When rows
// are hidden, the first visible row of a group shows the label; in a sorted table every row does.

const labelled = new Map(); // an empty cell, and the cell above that has its label

for (const body of all("tbody")) {
  const above = [];
  for (const row of body.rows) {
    [...row.cells].slice(0, 2).forEach((cell, column) => {
      if (cell.textContent.trim() === "" && above[column]) labelled.set(cell, above[column]);
      else above[column] = cell;
    });
  }
}

function showLabels(body) {
  const sorted = body.closest("table").querySelector("[aria-sort]") !== null;
  const seen = new Set();
  for (const row of body.rows) {
    if (row.classList.contains("removed") && !sorted) continue;
    for (const cell of [...row.cells].slice(0, 2)) {
      const label = labelled.get(cell);
      if (label) cell.innerHTML = sorted || !seen.has(label) ? label.innerHTML : "";
      seen.add(label ?? cell);
    }
  }
}

function valueOf(cell) {
  const text = (cell.firstChild?.textContent ?? "").trim() || cell.textContent.trim();
  const number = Number.parseFloat(text.replaceAll(",", "").replace(/^[^\d.-]+/, ""));
  return Number.isNaN(number) ? text : number;
}

function compare(a, b) {
  if (typeof a === typeof b) return typeof a === "number" ? a - b : a.localeCompare(b);
  return typeof a === "number" ? -1 : 1; // what is no number stands last
}

function sortBy(heading) {
  const table = heading.closest("table");
  const body = table.tBodies[0];
  const descending = heading.getAttribute("aria-sort") === "ascending";
  for (const other of all("th", table)) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
  showLabels(body);
  const rows = [...body.rows].map((row) => [valueOf(row.cells[heading.cellIndex]), row]);
  rows.sort(([a], [b]) => (descending ? compare(b, a) : compare(a, b)));
  body.append(...rows.map(([, row]) => row));
}

// A figure, large.

const dialog = document.querySelector("dialog");
let scale = 1;

function zoom(factor) {
  const drawn = dialog.querySelector(".stage svg");
  scale = Math.min(8, Math.max(0.5, scale * factor));
  drawn.style.width = `${scale * 100}%`;
}

function enlarge(figure) {
  const stage = dialog.querySelector(".stage");
  stage.replaceChildren(figure.querySelector("svg").cloneNode(true));
  scale = 1;
  zoom(1);
  dialog.showModal();
}

// What the reader does.

for (const button of all("[data-language]")) {
  button.addEventListener("click", () => showLanguage(button.dataset.language));
}
for (const box of all("[data-show]")) box.addEventListener("change", showImplementations);
for (const heading of all("thead th")) {
  heading.tabIndex = 0;
  heading.addEventListener("click", () => sortBy(heading));
  heading.addEventListener("keydown", (event) => {
    if (event.key === "Enter") sortBy(heading);
  });
}
for (const figure of all("figure")) {
  const drawn = figure.querySelector("svg");
  drawn.setAttribute("tabindex", "0");
  drawn.addEventListener("click", () => enlarge(figure));
  drawn.addEventListener("keydown", (event) => {
    if (event.key === "Enter") enlarge(figure);
  });
}
for (const button of all("[data-zoom]", dialog)) {
  button.addEventListener("click", () => zoom(Number(button.dataset.zoom)));
}
dialog.querySelector("[data-close]").addEventListener("click", () => dialog.close());
document.querySelector(".tools").hidden = false;

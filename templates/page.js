// The page's conveniences: language and theme, contents and search, implementations shown and
// hidden, tables sorted, figures enlarged. Without scripts everything is there, in both languages.
"use strict";

const NARROW = matchMedia("(max-width: 44rem)");

// Choices that are remembered: language and theme.

function applyLanguage(chosen) {
  ROOT.dataset.language = DATA.languages.includes(chosen) ? chosen : "both";
  ROOT.lang = shownLanguages()[0];
  document.title = inWords(DATA.titles);
  for (const body of all("tbody")) showLabels(body);
  labelCells();
  details.leave();
  for (const button of all(".enlarge")) nameEnlarging(button);
  redrawCharts();
  passages = null;
  search();
}

const APPLY = {
  language: applyLanguage,
  theme(chosen) {
    applyTheme(chosen);
    redrawCharts();
  },
};

function choose(choice, value) {
  APPLY[choice](value);
  for (const button of all(`[data-choose="${choice}"]`)) {
    button.setAttribute("aria-pressed", String(button.value === value));
  }
}

// Implementations: rows, statements and what the figures draw of them.

function showImplementations() {
  const left = new Set(all("[data-show]:not(:checked)").map((box) => box.dataset.show));
  for (const part of all("[data-of]")) {
    part.classList.toggle("removed", left.has(part.dataset.of));
  }
  for (const part of all("[data-implementations]")) {
    const about = part.dataset.implementations.split(" ");
    part.classList.toggle("removed", about.some((name) => left.has(name)));
  }
  for (const body of all("tbody")) showLabels(body);
  leaveOutOfCharts(left);
}

// Labels of groups: a cell of the first two columns that repeats the one above is empty. When rows
// are hidden, the first visible row of a group shows the label; in a sorted table, and where each
// row is a card, every row does.

const labelled = new Map(); // an empty cell, and the cell above that has its label

for (const body of all(".table tbody")) {
  const above = [];
  for (const row of body.rows) {
    [...row.cells].slice(0, 2).forEach((cell, column) => {
      if (cell.textContent.trim() === "" && above[column]) labelled.set(cell, above[column]);
      else above[column] = cell;
    });
  }
}

function showLabels(body) {
  const everywhere = NARROW.matches || one("[aria-sort$=ending]", body.closest("table")) !== null;
  const seen = new Set();
  for (const row of body.rows) {
    if (row.classList.contains("removed") && !everywhere) continue;
    for (const cell of [...row.cells].slice(0, 2)) {
      const label = labelled.get(cell);
      if (label) cell.innerHTML = everywhere || !seen.has(label) ? label.innerHTML : "";
      seen.add(label ?? cell);
    }
  }
}

// On a narrow screen a row is a card, in which each cell has its column's heading.

function headings(table) {
  const groups = all("tr.groups td", table).flatMap((cell) => Array(cell.colSpan).fill(shownText(cell)));
  return all("thead tr:last-child th", table).map((cell, column) =>
    [groups[column], shownText(cell)].filter(Boolean).join(" "),
  );
}

function shownText(element) {
  const parts = all("[lang]", element).filter((part) => shownLanguages().includes(part.lang));
  const text = parts.length ? parts.map((part) => part.textContent).join(" ") : element.textContent;
  return text.trim();
}

function labelCells() {
  if (!NARROW.matches) return;
  for (const table of all(".table table")) {
    const names = headings(table);
    for (const row of table.tBodies[0].rows) {
      [...row.cells].forEach((cell, column) => {
        cell.dataset.label = names[column];
      });
    }
  }
}

// Tables are sorted by a column: up, down, and as they were.

const NEXT = { none: "ascending", ascending: "descending", descending: "none" };
const original = new Map(all(".table tbody").map((body) => [body, [...body.rows]]));

function valueOf(cell) {
  const text = (cell.firstChild?.textContent ?? "").trim() || cell.textContent.trim();
  const value = Number.parseFloat(text.replaceAll(",", "").replace(/^[^\d.-]+/, ""));
  return Number.isNaN(value) ? text : value;
}

function compare(a, b, sign) {
  if (typeof a === typeof b) return sign * (typeof a === "number" ? a - b : a.localeCompare(b));
  return typeof a === "number" ? -1 : 1; // what is no number stands last
}

function sortBy(heading, order) {
  const table = heading.closest("table");
  const body = table.tBodies[0];
  for (const other of all("th[aria-sort]", table)) other.setAttribute("aria-sort", "none");
  heading.setAttribute("aria-sort", order);
  body.append(...original.get(body));
  showLabels(body);
  if (order === "none") return;
  const sign = order === "ascending" ? 1 : -1;
  const rows = [...body.rows].map((row) => [valueOf(row.cells[heading.cellIndex]), row]);
  rows.sort(([a], [b]) => compare(a, b, sign));
  body.append(...rows.map(([, row]) => row));
}

const columns = all(".table thead th");
for (const heading of columns) {
  if (!heading.textContent.trim()) continue;
  const button = make("button", { type: "button" });
  button.append(...heading.childNodes);
  heading.append(button);
  heading.setAttribute("aria-sort", "none");
  button.addEventListener("click", () => {
    sortBy(heading, NEXT[heading.getAttribute("aria-sort")]);
    keepInAddress();
  });
}

// Search: the paragraphs, rows and captions that have all of the words.

const MOST_FOUND = 40;
const AROUND = 40; // characters shown on each side of a match
const field = one(".search input");
const results = one(".found");
let passages = null; // each with its text in the language that is shown

function allPassages() {
  const found = all("main :is(h1, h2, h3, p, li, tr, dl > div):not(.explorer *)").filter(
    (element) => !element.closest(".paper, figure.static, tr tr") && !one("p", element),
  );
  return found.map((element) => ({ element, text: textOf(element) }));
}

// The text of an element in the language that is shown.
function textOf(element) {
  const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const found = [];
  while (texts.nextNode()) {
    const language = texts.currentNode.parentElement.closest("[lang]")?.lang;
    const isOther = DATA.languages.includes(language) && !shownLanguages().includes(language);
    if (!isOther) found.push(texts.currentNode.data);
  }
  return found.join(" ").replace(/\s+/g, " ").trim();
}

function excerpt(text, wanted) {
  const at = text.toLowerCase().indexOf(wanted);
  const from = Math.max(0, at - AROUND);
  const to = Math.min(text.length, at + wanted.length + AROUND);
  const match = make("mark", {}, text.slice(at, at + wanted.length));
  const before = (from ? "…" : "") + text.slice(from, at);
  return [before, match, text.slice(at + wanted.length, to) + (to < text.length ? "…" : "")];
}

function isShown(element) {
  return element.getClientRects().length > 0;
}

function search() {
  const wanted = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  results.hidden = wanted.length === 0;
  if (results.hidden) return;
  passages ??= allPassages();
  const has = ({ text }) => wanted.every((each) => text.toLowerCase().includes(each));
  const found = passages.filter((passage) => has(passage) && isShown(passage.element));
  one("p", results).textContent = `${word("matches")}: ${found.length}`;
  const entries = found.slice(0, MOST_FOUND).map(({ element, text }, n) => {
    element.id ||= `found-${passages.findIndex((passage) => passage.element === element)}`;
    const heading = one("h2, h3", element.closest("section") ?? document);
    const where = heading ? make("small", {}, shownText(heading)) : "";
    return make("li", {}, make("a", { href: `#${element.id}`, "data-match": n }, where, ...excerpt(text, wanted[0])));
  });
  one("ol", results).replaceChildren(...entries);
}

function searchAgain() {
  search();
  keepInAddress();
}

let typing = 0;
field.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(searchAgain, 120);
});
field.addEventListener("keydown", (event) => {
  if (event.key === "Enter") {
    searchAgain();
    one("a", results)?.click();
  } else if (event.key === "Escape") {
    field.value = "";
    searchAgain();
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.closest("input, select, textarea, dialog")) return;
  event.preventDefault();
  field.focus();
});

// Contents: which section is read, and on a narrow screen a menu.

const menu = one(".menu");

function openMenu(open) {
  menu.setAttribute("aria-expanded", String(open));
  one(".side").classList.toggle("open", open);
}

const entries = all(".contents a").map((link) => [link, one(link.getAttribute("href")).closest("section")]);

function markCurrent() {
  const passed = entries.filter(([, section]) => section.getBoundingClientRect().top < innerHeight / 3);
  const current = passed.at(-1) ?? entries[0];
  for (const [link] of entries) {
    if (link === current[0]) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

menu.addEventListener("click", () => openMenu(menu.getAttribute("aria-expanded") !== "true"));
one(".side").addEventListener("keydown", (event) => {
  if (event.key === "Escape" && menu.getAttribute("aria-expanded") === "true") {
    openMenu(false);
    menu.focus();
  }
});
let scrolled = 0;
addEventListener("scroll", () => {
  cancelAnimationFrame(scrolled);
  scrolled = requestAnimationFrame(markCurrent);
});

// Links: to a figure that a chart stands for, and to rows that the filter hides.

function follow(hash) {
  const target = document.getElementById(decodeURIComponent(hash.slice(1)));
  if (!target) return;
  const name = target.closest(".removed")?.dataset.implementation;
  if (name) {
    one(`[data-show="${CSS.escape(name)}"]`).checked = true;
    showImplementations();
    keepInAddress();
  }
  const figure = target.closest("figure")?.id;
  if (figure && !isShown(target)) showChart(figure);
  else target.scrollIntoView();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#"]');
  if (!link) return;
  openMenu(false);
  // The same address again causes no other event.
  if (link.hash === location.hash) follow(link.hash);
});
addEventListener("hashchange", () => follow(location.hash));

// A figure, large: with buttons, the wheel, the keyboard, and dragged by the pointer.

const dialog = one("dialog");
const stage = one(".stage", dialog);
let scale = 1;

// About a place on the stage, which stays where it is.
function zoom(factor, left = stage.clientWidth / 2, top = stage.clientHeight / 2) {
  const before = scale;
  scale = Math.min(8, Math.max(0.5, scale * factor));
  const [x, y] = [stage.scrollLeft + left, stage.scrollTop + top];
  one("svg", stage).style.width = `${scale * 100}%`;
  stage.scrollTo((x * scale) / before - left, (y * scale) / before - top);
}

function enlarge(figure) {
  details.leave();
  const drawn = one("svg", figure).cloneNode(true);
  stage.replaceChildren(drawn);
  if (drawn.matches(FIELDS)) exploreMarks(drawn);
  scale = 1;
  zoom(1);
  dialog.showModal();
  stage.focus();
}

function nameEnlarging(button) {
  button.title = word("enlarge");
  button.setAttribute("aria-label", word("enlarge"));
}

for (const figure of all("figure")) {
  const button = make("button", { type: "button", class: "enlarge screen" }, "⤢");
  figure.prepend(button);
  button.addEventListener("click", () => enlarge(figure));
  one("svg", figure).addEventListener("click", () => enlarge(figure));
}
for (const button of all("[data-zoom]", dialog)) {
  button.addEventListener("click", () => zoom(Number(button.dataset.zoom)));
}
one("[data-close]", dialog).addEventListener("click", () => dialog.close());
stage.addEventListener("keydown", (event) => {
  if (event.key === "+" || event.key === "=") zoom(1.25);
  else if (event.key === "-") zoom(0.8);
  else if (event.key === "0") zoom(1 / scale);
});
stage.addEventListener(
  "wheel",
  (event) => {
    event.preventDefault();
    const box = stage.getBoundingClientRect();
    zoom(event.deltaY < 0 ? 1.25 : 0.8, event.clientX - box.left, event.clientY - box.top);
  },
  { passive: false },
);
stage.addEventListener("pointermove", (event) => {
  if (event.pointerType === "mouse" && event.buttons === 1) stage.scrollBy(-event.movementX, -event.movementY);
});

// What can be scrolled sideways can be reached with the keyboard.
const widths = new ResizeObserver((changes) => {
  for (const { target } of changes) {
    if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});
for (const box of all(".table, .maps, .drawing")) widths.observe(box);

// The address holds what is searched, left out, sorted and switched off, so that a link to it, copied,
// opens the same.

function keepInAddress() {
  const kept = new URLSearchParams();
  if (field.value) kept.set("search", field.value);
  for (const box of all("[data-show]:not(:checked)")) kept.append("without", box.dataset.show);
  columns.forEach((heading, n) => {
    const order = heading.getAttribute("aria-sort");
    if (order && order !== "none") kept.append(order, n);
  });
  EXPLORERS.forEach(({ hidden }, n) => {
    for (const line of hidden) kept.append(`off${n}`, line);
  });
  const address = new URL(location);
  address.search = kept;
  history.replaceState(null, "", address);
}

function readAddress() {
  const kept = new URLSearchParams(location.search);
  field.value = kept.get("search") ?? field.value;
  for (const name of kept.getAll("without")) {
    for (const box of all(`[data-show="${CSS.escape(name)}"]`)) box.checked = false;
  }
  if (kept.has("without")) showImplementations();
  for (const order of ["ascending", "descending"]) {
    for (const n of kept.getAll(order)) if (columns[n]?.hasAttribute("aria-sort")) sortBy(columns[n], order);
  }
  EXPLORERS.forEach((explorer, n) => {
    explorer.hidden = new Set(kept.getAll(`off${n}`));
  });
}

// What the reader chooses, and how the page begins.

for (const button of all("[data-choose]")) {
  const { choose: choice } = button.dataset;
  button.addEventListener("click", () => {
    try {
      localStorage.setItem(`flashlab-${choice}`, button.value);
    } catch {
      // Not remembered.
    }
    choose(choice, button.value);
  });
}
for (const box of all("[data-show]")) {
  box.addEventListener("change", () => {
    showImplementations();
    keepInAddress();
  });
}
SYSTEM_IS_DARK.addEventListener("change", () => APPLY.theme(remembered("theme")));
NARROW.addEventListener("change", () => {
  for (const body of all("tbody")) showLabels(body);
  labelCells();
});
readAddress();
choose("theme", remembered("theme"));
choose("language", remembered("language"));
markCurrent();
if (location.hash) follow(location.hash);
ROOT.dataset.ready = "";

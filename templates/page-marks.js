// The heat map and the map of choices: each mark of a run tells what is known of it. The pointer or the
// arrow keys go to a mark; a click, or Enter, keeps its details open for their links.
"use strict";

const FINGER = 16; // pixels between a tap and a mark that it is meant for
const FIELDS = ".map:has([data-runs]), .heat table";
const MARKS = "[data-run], [data-runs]";

// The charts' points by the numbers of their runs.
const POINTS = new Map();
for (const chart of DATA.charts) {
  for (const line of chart.lines) {
    for (const point of line.points) if (!POINTS.has(point.run)) POINTS.set(point.run, { chart, line, point });
  }
}

// Of the heat map's cells the metric stands at the gap before them.
function metricOf(mark) {
  let at = mark.closest("[data-metric]") ?? mark;
  while (!at.dataset.metric) at = at.previousElementSibling;
  return DATA.metrics.findIndex(({ name }) => name === at.dataset.metric);
}
const runsOf = (mark) => (mark.dataset.run ?? mark.dataset.runs).split(" ").map(Number);

// What is known of each run of a mark: its implementation, its experiment, and terms with their texts.
function describe(mark) {
  const metric = metricOf(mark);
  const entries = [];
  for (const run of runsOf(mark)) {
    const known = POINTS.get(run);
    if (!known) {
      entries.push({ headings: [], facts: [], run });
      continue;
    }
    const { chart, line, point } = known;
    const facts = pointFacts(chart, point, metric);
    const name = line.variant ? `${line.implementation} ${inWords(line.variant)}` : line.implementation;
    entries.push({ headings: [name, inWords(chart.title)], facts, run });
  }
  return entries;
}

// The details of the mark that the reader is at; one at a time.
const details = {
  tip: make("div", { class: "tip marks-tip", hidden: "" }),
  said: make("p", { class: "said", role: "status" }),
  mark: null,
  pinned: false,

  show(mark) {
    this.leave();
    this.mark = mark;
    mark.classList.add("at");
    const close = make("button", { type: "button", "aria-label": word("close_details") }, "×");
    close.addEventListener("click", () => this.close());
    const entries = describe(mark);
    const parts = entries.flatMap(({ headings: [name = "", title = ""], facts, run }) => [
      make("strong", {}, name),
      make("div", {}, title),
      detailsOf(facts, run, entries.length === 1), // of several, the runs lead to the records
    ]);
    this.tip.replaceChildren(close, ...parts);
    const host = mark.closest("section");
    host.append(this.tip, this.said);
    this.tip.hidden = false;
    const box = mark.getBoundingClientRect();
    const around = host.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = this.tip;
    const most = Math.min(around.right, innerWidth) - around.left - width - 8;
    const below = box.bottom + 6;
    const top = below + height <= innerHeight ? below : Math.max(0, box.top - height - 6);
    this.tip.style.left = `${Math.max(0, Math.min(box.left - around.left, most))}px`;
    this.tip.style.top = `${top - around.top - host.clientTop}px`;
  },

  // Told to those who hear the page.
  say() {
    const texts = describe(this.mark).map(({ headings, facts, run }) =>
      [...headings, ...facts.map(([term, text]) => `${term} ${text}`), `${word("run")} ${run}`].join(", "),
    );
    this.said.textContent = texts.join("; ");
  },

  pin() {
    this.pinned = true;
    this.tip.classList.add("pinned");
  },

  leave() {
    this.mark?.classList.remove("at");
    this.mark = null;
    this.pinned = false;
    this.tip.classList.remove("pinned");
    this.tip.hidden = true;
  },

  close() {
    const field = this.mark?.closest(FIELDS);
    this.leave();
    field?.focus({ preventScroll: true });
  },
};

function middle(mark) {
  const { left, right, top, bottom } = mark.getBoundingClientRect();
  return [(left + right) / 2, (top + bottom) / 2];
}

const marksIn = (field) => all(MARKS, field).filter((mark) => mark.getClientRects().length);

// The mark that was clicked: for a finger, one near it.
function markAt(event) {
  const mark = event.target.closest(MARKS);
  const field = event.target.closest(FIELDS);
  if (mark || !field || event.pointerType !== "touch") return mark;
  const distance = (each) => Math.hypot(middle(each)[0] - event.clientX, middle(each)[1] - event.clientY);
  const [nearest] = marksIn(field).sort((a, b) => distance(a) - distance(b));
  return nearest && distance(nearest) < FINGER ? nearest : null;
}

// The mark that an arrow key leads to: the nearest one in its direction.
function nextMark(field, [across, down]) {
  const marks = marksIn(field);
  if (!field.contains(details.mark)) return marks[0];
  const [x, y] = middle(details.mark);
  let found = null;
  let least = Infinity;
  for (const mark of marks) {
    const [dx, dy] = [middle(mark)[0] - x, middle(mark)[1] - y];
    const ahead = dx * across + dy * down;
    const distance = ahead + 3 * Math.abs(dx * down + dy * across);
    if (mark !== details.mark && ahead > 0.5 && distance < least) [found, least] = [mark, distance];
  }
  return found;
}

function onMarkKey(event) {
  const field = event.currentTarget;
  const arrows = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key in arrows) {
    const mark = nextMark(field, arrows[event.key]);
    if (mark) {
      mark.scrollIntoView({ block: "nearest", inline: "nearest" });
      details.show(mark);
      details.say();
    }
  } else if (event.key === "Enter" && details.mark) {
    details.pin();
    one("a", details.tip).focus();
  } else if (event.key === "Escape" && details.mark) details.leave();
  else return;
  event.preventDefault();
  event.stopPropagation();
}

function exploreMarks(field) {
  field.setAttribute("tabindex", 0);
  field.addEventListener("keydown", onMarkKey);
}

document.addEventListener("pointerover", (event) => {
  if (details.pinned || event.pointerType !== "mouse") return;
  const mark = event.target.closest(MARKS);
  if (mark && mark !== details.mark) details.show(mark);
  else if (!mark && details.mark && !document.activeElement.matches(FIELDS)) details.leave();
});
// Before a click enlarges the figure.
document.addEventListener(
  "click",
  (event) => {
    const mark = markAt(event);
    if (mark) {
      details.show(mark);
      details.pin();
      event.stopPropagation();
    } else if (details.pinned && !details.tip.contains(event.target)) details.leave();
  },
  true,
);
details.tip.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  event.preventDefault();
  event.stopPropagation();
  details.close();
});
for (const field of all(FIELDS)) exploreMarks(field);

// Charts to explore: a reader chooses experiment, metric and axes, zooms, and goes from a point to
// its run and record. uPlot draws; what it draws is the page's data. A chart is made when it comes
// near the screen, so that the page is ready at once.
"use strict";

const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const one = (selector, root = document) => root.querySelector(selector);
const DATA = JSON.parse(document.getElementById("data").textContent);
const DASHES = [[], [8, 4], [2, 3], [8, 3, 2, 3]];
const NEAR = 32; // pixels between the pointer and a point that it is at
const ZOOM = 1.25;
const PAN = 0.15; // of the chart's width or height
const DRAGGED = 4; // pixels that a click may move
const ROUNDING = 1e-6; // of pixels to values and back
const TICK_ROOM = 40; // pixels of height for each number on an axis
const MARK = 5; // half the size of the mark of a run without a result

// The colours of the implementations, as light as a dark page needs.
function styleColours() {
  const probe = document.createElement("span");
  probe.hidden = true;
  document.body.append(probe);
  const found = [0, 1, 2, 3, 4, 5, 6, 7, 8].map((number) => {
    probe.className = `style-${number}`;
    const { backgroundColor } = getComputedStyle(probe);
    return ROOT.dataset.theme === "dark" ? `oklch(from ${backgroundColor} max(l, 0.7) c h)` : backgroundColor;
  });
  probe.remove();
  return found;
}

// Words in the language that is shown, or in all of them.

function shownLanguages() {
  const chosen = ROOT.dataset.language;
  return DATA.languages.includes(chosen) ? [chosen] : DATA.languages;
}

const inWords = (texts) => [...new Set(shownLanguages().map((tag) => texts[tag]))].join(" ");
const word = (key) => inWords(DATA.words[key]);

function number(value, digits) {
  return new Intl.NumberFormat("en", { maximumSignificantDigits: digits }).format(value);
}

// An element with its attributes and children.
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// Round numbers on an axis: powers with 1, 2 and 5 over a decade or more, even steps within less.
function roundNumbers(low, high, most, logarithmic) {
  if (logarithmic && high / low >= 10) {
    const decades = Math.log10(high / low);
    const digits = decades * 3 <= most ? [1, 2, 5] : [1];
    const step = Math.max(1, Math.ceil(decades / most));
    const found = [];
    for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power += step) {
      found.push(...digits.map((digit) => digit * 10 ** power));
    }
    return found.filter((value) => value >= low && value <= high);
  }
  const rough = (high - low) / most;
  const magnitude = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].find((factor) => factor * magnitude >= rough) * magnitude;
  const found = [];
  for (let count = Math.ceil(low / step); count * step <= high; count += 1) {
    found.push(Number((count * step).toPrecision(12)));
  }
  return found;
}

// What is known of a chart's point by a metric: its size, its value and the interval of that.
function pointFacts(chart, point, metric) {
  const { label, unit, digits } = DATA.metrics[metric];
  const found = [[chart.symbol, number(point.at, 12) + (point.along ? `, ${point.along}` : "")]];
  const values = point.values[metric];
  if (!values) return [...found, [inWords(label), point.status ? inWords(point.status) : "–"]];
  const [value, low, high] = values;
  found.push([inWords(label), `${number(value, digits)} ${unit}`]);
  if (low !== null) found.push([word("interval"), `${number(low, digits)} – ${number(high, digits)}`]);
  return found;
}

// Facts of a run as a list, with links to the run and, if wanted, to its records.
function detailsOf(facts, run, withRecords = true) {
  const list = make("dl", {});
  for (const [term, text] of facts) list.append(make("dt", {}, term), make("dd", {}, text));
  list.append(make("dt", {}, word("run")), make("dd", {}, make("a", { href: `#run-${run}` }, String(run))));
  if (!withRecords) return list;
  // The appendix has the files of the run's records.
  const links = RECORDS.get(run).map((link) => make("div", {}, link.cloneNode(true)));
  list.append(make("dt", {}, word("record")), make("dd", {}, ...links));
  return list;
}

const keyOf = (line) => `${line.implementation}:${line.position}`;
const endsOf = ({ min, max }) => ({ min, max });

class Explorer {
  constructor(holder) {
    this.holder = holder;
    this.charts = holder.dataset.charts.split(" ").map((id) => DATA.charts.find((c) => c.id === id));
    this.hidden = new Set(); // lines that the legend switched off
    this.left = new Set(); // those that the filter of the whole page leaves out
    this.show(this.charts[0], Object.values(this.charts[0].figures)[0] ?? 0);
    this.relativeTo = "";
  }

  // What is shown

  show(chart, metric) {
    this.chart = chart;
    this.metric = metric;
    const values = [...new Set(chart.lines.flatMap((line) => line.points.map((p) => p.at)))];
    this.sizes = values.sort((a, b) => a - b);
    this.logarithmic = {
      x: this.sizes[0] > 0 && this.sizes.at(-1) >= 4 * this.sizes[0],
      y: DATA.metrics[metric].is_logarithmic,
    };
  }

  get lines() {
    const isShown = (line) => !this.hidden.has(keyOf(line)) && !this.left.has(line.implementation);
    return this.chart.lines.filter(isShown);
  }

  // What a point's value is divided by; nothing where there is no run to compare with.
  divisor(line, point) {
    if (!this.relativeTo) return 1;
    const other = this.chart.lines.find(
      (each) => each.implementation === this.relativeTo && each.position === line.position,
    );
    return other?.points.find((each) => each.at === point.at)?.values[this.metric]?.[0] ?? null;
  }

  // The value that is drawn and the ends of its interval; nothing where there is none. The interval
  // is that of the point's own run, so a ratio has none.
  drawn(line, point) {
    const divisor = this.divisor(line, point);
    const values = point.values[this.metric];
    if (!values || !divisor) return null;
    const [value, low, high] = values;
    if (this.logarithmic.y && value <= 0) return null;
    return this.relativeTo ? [value / divisor, null, null] : [value, low, high];
  }

  nameOf(line) {
    return line.variant ? `${line.implementation} ${inWords(line.variant)}` : line.implementation;
  }

  get valueTitle() {
    const { label, unit } = DATA.metrics[this.metric];
    const title = `${inWords(label)} (${unit})`;
    return this.relativeTo ? `${inWords(label)}, ${word("relative")} ${this.relativeTo}` : title;
  }

  // Building

  build() {
    this.uplot?.destroy();
    this.resizing?.disconnect();
    const id = `${this.charts[0].id}-help`;
    this.plot = make("div", { class: "plot", tabindex: 0, role: "application", "aria-describedby": id });
    this.said = make("p", { class: "said", role: "status" });
    this.tip = make("div", { class: "tip", hidden: "" });
    this.legend = make("div", { class: "legend", role: "group", "aria-label": word("show") });
    const help = DATA.languages.map((tag) => make("p", { lang: tag }, DATA.words.chart_help[tag]));
    const explained = make("div", { class: "both quiet", id }, ...help);
    this.holder.replaceChildren(this.controls(), this.plot, this.said, this.legend, explained);
    this.plot.addEventListener("keydown", (event) => this.onKey(event));
    this.draw();
    this.resizing = new ResizeObserver(() => {
      if (this.uplot.width !== this.plot.clientWidth) this.uplot.setSize(this.size());
    });
    this.resizing.observe(this.plot);
  }

  // A list to choose from, of [value, text] pairs; what is chosen is drawn.
  choice(name, label, options, chosen, choose) {
    const select = make("select", { name });
    for (const [value, text] of options) select.add(new Option(text, value, false, value === chosen));
    select.addEventListener("change", () => {
      choose(select.value);
      this.holder.replaceChild(this.controls(), this.holder.firstChild);
      this.holder.querySelector(`[name=${name}]`).focus();
      this.draw();
    });
    return make("label", {}, label, " ", select);
  }

  controls() {
    const found = [];
    const choose = (...choice) => found.push(this.choice(...choice));
    if (this.charts.length > 1) {
      const titles = this.charts.map((chart) => [chart.id, inWords(chart.title)]);
      choose("experiment", word("experiment"), titles, this.chart.id, (id) =>
        this.show(this.charts.find((chart) => chart.id === id), this.metric),
      );
    }
    const metrics = DATA.metrics.map((each, i) => [String(i), `${inWords(each.label)} (${each.unit})`]);
    choose("metric", word("metric"), metrics, String(this.metric), (value) =>
      this.show(this.chart, Number(value)),
    );
    const names = [...new Set(this.chart.lines.map((line) => line.implementation))];
    const relative = names.map((name) => [name, `${word("relative")} ${name}`]);
    choose("values", word("values"), [["", word("absolute")], ...relative], this.relativeTo, (name) => {
      this.relativeTo = name;
    });
    const scales = [
      ["logarithmic", word("logarithmic")],
      ["linear", word("linear")],
    ];
    for (const [axis, key] of [["x", "horizontal"], ["y", "vertical"]]) {
      const chosen = this.logarithmic[axis] ? "logarithmic" : "linear";
      choose(key, word(key), scales, chosen, (value) => {
        this.logarithmic[axis] = value === "logarithmic";
      });
    }
    const button = (key, sign, act) => {
      const made = make("button", { type: "button", "aria-label": word(key), title: word(key), "data-act": key }, sign);
      made.addEventListener("click", act);
      return made;
    };
    const buttons = make(
      "span",
      { class: "zooming" },
      button("zoom_in", "+", () => this.zoom(1 / ZOOM)),
      button("zoom_out", "−", () => this.zoom(ZOOM)),
      button("reset", "⟲", () => this.reset()),
    );
    return make("div", { class: "controls" }, ...found, buttons);
  }

  drawLegend() {
    const buttons = this.chart.lines
      .filter((line) => !this.left.has(line.implementation))
      .map((line) => {
        const shown = !this.hidden.has(keyOf(line));
        const sample = make("span", { class: `sample${line.position % 2 ? " hollow" : ""}`, "aria-hidden": "true" });
        sample.style.color = this.colours[line.style % this.colours.length];
        sample.style.borderTopStyle = line.position ? "dashed" : "solid";
        const button = make("button", { type: "button", "aria-pressed": shown, "data-line": this.nameOf(line) }, sample, this.nameOf(line));
        button.addEventListener("click", () => {
          this.hidden[shown ? "add" : "delete"](keyOf(line));
          keepInAddress();
          this.draw();
          this.legend.querySelector(`[data-line="${CSS.escape(this.nameOf(line))}"]`).focus();
        });
        return button;
      });
    this.legend.replaceChildren(...buttons);
  }

  size() {
    const width = Math.max(240, this.plot.clientWidth);
    return { width, height: Math.round(Math.min(440, Math.max(300, width * 0.55))) };
  }

  draw() {
    this.unpin();
    this.at = null;
    this.uplot?.destroy();
    this.colours = styleColours();
    const { lines } = this;
    const columns = lines.map((line) => {
      const at = new Map(line.points.map((point) => [point.at, point]));
      // A run without a result leaves a gap in the line; a size that was not asked for does not.
      return this.sizes.map((size) => (at.has(size) ? (this.drawn(line, at.get(size))?.[0] ?? null) : undefined));
    });
    this.uplot = new uPlot(this.options(lines), [this.sizes, ...columns], this.plot);
    this.ring = make("div", { class: "ring", hidden: "" });
    this.uplot.over.append(this.ring);
    this.plot.append(this.tip);
    this.plot.setAttribute("aria-label", `${word("chart")}: ${inWords(this.chart.title)}, ${this.valueTitle}`);
    this.listen(this.uplot.over);
    this.drawLegend();
  }

  options(lines) {
    const font = "12px system-ui, sans-serif";
    const colour = (name) => getComputedStyle(ROOT).getPropertyValue(name);
    const axis = { font, labelFont: `bold ${font}`, stroke: colour("--ink"), labelSize: 20, labelGap: 2 };
    const grid = { stroke: colour("--line"), width: 1 };
    const padded = (low, high, logarithmic, share) => {
      if (low === null || low === undefined || high === null) return logarithmic ? [1, 10] : [0, 1];
      if (logarithmic) {
        const free = Math.max((high / low) ** share, share < 0.1 ? 1.05 : 1.2);
        return [low / free, high * free];
      }
      return [low, high + (high - low || Math.abs(high) || 1) * share];
    };
    const sizeTicks = (u, _, low, high) => {
      let last = -Infinity;
      return this.sizes.filter((size) => {
        const place = u.valToPos(size, "x");
        if (size < low || size > high || place - last < 44) return false;
        last = place;
        return true;
      });
    };
    return {
      ...this.size(),
      legend: { show: false },
      cursor: { x: false, y: false, points: { show: false }, drag: { x: true, y: true, uni: 30 } },
      scales: {
        x: {
          time: false,
          distr: this.logarithmic.x ? 3 : 1,
          // Also asked when the reader zooms, to what is to be shown exactly.
          range: (_, low, high) => {
            if (low !== this.sizes[0] || high !== this.sizes.at(-1)) return [low, high];
            const [from, to] = padded(low, high, this.logarithmic.x, 0.04);
            return this.logarithmic.x ? [from, to] : [from - (to - high), to];
          },
        },
        y: {
          distr: this.logarithmic.y ? 3 : 1,
          range: (_, low, high) => padded(this.logarithmic.y ? low : Math.min(0, low), high, this.logarithmic.y, 0.1),
        },
      },
      axes: [
        {
          ...axis,
          label: `${inWords(this.chart.axis)} ${this.chart.symbol}`,
          grid: { show: false },
          ticks: grid,
          splits: sizeTicks,
          filter: (_, splits) => splits,
          values: (_, splits) => splits.map((size) => number(size, 12)),
        },
        {
          ...axis,
          label: this.valueTitle,
          grid,
          ticks: grid,
          size: 62,
          splits: (u, _, low, high) =>
            roundNumbers(low, high, Math.floor(u.height / TICK_ROOM), this.logarithmic.y),
          filter: (_, splits) => splits,
          values: (_, splits) => splits.map((value) => number(value, 6)),
        },
      ],
      series: [
        {},
        ...lines.map((line) => {
          const stroke = this.colours[line.style % this.colours.length];
          const fill = line.position % 2 ? colour("--paper") : stroke;
          return {
            label: this.nameOf(line),
            stroke,
            width: 2,
            dash: DASHES[line.position % DASHES.length],
            points: { show: true, size: 8, width: 1.5, stroke, fill },
          };
        }),
      ],
      hooks: {
        ready: [(u) => Object.assign(this, { whole: { x: endsOf(u.scales.x), y: endsOf(u.scales.y) } })],
        draw: [(u) => this.drawIntervalsAndFailures(u)],
        setCursor: [() => this.onHover()],
      },
    };
  }

  // Above uPlot's lines: the 95% intervals, and a cross at the top for each run without a result.
  drawIntervalsAndFailures(u) {
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.lineWidth = 1.5 * ratio;
    for (const line of this.lines) {
      ctx.strokeStyle = this.colours[line.style % this.colours.length];
      ctx.beginPath();
      for (const point of line.points) {
        const x = u.valToPos(point.at, "x", true);
        if (point.status) {
          const [y, half] = [bbox.top + 2 * MARK * ratio, MARK * ratio];
          ctx.moveTo(x - half, y - half);
          ctx.lineTo(x + half, y + half);
          ctx.moveTo(x - half, y + half);
          ctx.lineTo(x + half, y - half);
          continue;
        }
        const [, low, high] = this.drawn(line, point) ?? [];
        if (low === null || low === undefined) continue;
        ctx.moveTo(x, u.valToPos(low, "y", true));
        ctx.lineTo(x, u.valToPos(high, "y", true));
      }
      ctx.stroke();
    }
    ctx.restore();
  }

  // Points

  // Where a point is in the chart, in pixels; nothing if it is not drawn, or not in view.
  place(line, point) {
    const u = this.uplot;
    const drawn = this.drawn(line, point);
    if (!drawn && !point.status) return null;
    const x = u.valToPos(point.at, "x");
    const y = drawn ? u.valToPos(drawn[0], "y") : 2 * MARK;
    const inside = x >= -1 && y >= -1 && x <= u.over.clientWidth + 1 && y <= u.over.clientHeight + 1;
    return inside ? { x, y } : null;
  }

  nearest(left, top) {
    let found = null;
    let least = NEAR;
    for (const line of this.lines) {
      for (const point of line.points) {
        const place = this.place(line, point);
        const distance = place ? Math.hypot(place.x - left, place.y - top) : Infinity;
        if (distance < least) [found, least] = [{ line, point, place }, distance];
      }
    }
    return found;
  }

  onHover() {
    if (this.pinned || !this.uplot) return;
    const { left, top } = this.uplot.cursor;
    const found = left >= 0 ? this.nearest(left, top) : null;
    if (found) this.point(found);
    else if (!this.plot.matches(":focus") || left >= 0) this.leave();
  }

  // The point that the pointer or the keyboard is at.
  point({ line, point, place }) {
    this.at = { line, point };
    this.ring.hidden = false;
    this.ring.style.left = `${place.x}px`;
    this.ring.style.top = `${place.y}px`;
    this.ring.style.color = this.colours[line.style % this.colours.length];
    this.fillTip(line, point);
    this.tip.hidden = false;
    const over = this.uplot.over;
    const left = over.offsetLeft + place.x + 12;
    const top = over.offsetTop + place.y + 12;
    const most = this.plot.clientWidth - this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(0, left <= most ? left : left - this.tip.offsetWidth - 24)}px`;
    this.tip.style.top = `${top + this.tip.offsetHeight <= this.plot.clientHeight ? top : Math.max(0, top - this.tip.offsetHeight - 24)}px`;
  }

  leave() {
    this.at = null;
    this.ring.hidden = true;
    this.tip.hidden = true;
  }

  // What is known of a point: name, size, value, interval, ratio, run and record.
  factsOf(line, point) {
    const found = pointFacts(this.chart, point, this.metric);
    const value = point.values[this.metric]?.[0];
    const divisor = this.relativeTo && value ? this.divisor(line, point) : null;
    if (divisor) found.push([`${word("relative")} ${this.relativeTo}`, `${number(value / divisor, 3)}×`]);
    return found;
  }

  fillTip(line, point) {
    const list = detailsOf(this.factsOf(line, point), point.run);
    const close = make("button", { type: "button", "aria-label": word("close_details") }, "×");
    close.addEventListener("click", () => this.unpin(true));
    this.tip.replaceChildren(make("strong", {}, this.nameOf(line)), close, list);
  }

  pin() {
    if (!this.at) return;
    this.pinned = true;
    this.tip.classList.add("pinned");
  }

  unpin(andFocus = false) {
    this.pinned = false;
    this.tip.classList.remove("pinned");
    if (andFocus) {
      this.leave();
      this.plot.focus();
    } else this.tip.hidden = true;
  }

  // The view

  zoom(factor, left, top) {
    const { clientWidth: width, clientHeight: height } = this.uplot.over;
    const x = left ?? width / 2;
    const y = top ?? height / 2;
    this.view(x - x * factor, x + (width - x) * factor, y - y * factor, y + (height - y) * factor);
  }

  pan(across, down) {
    const { clientWidth: width, clientHeight: height } = this.uplot.over;
    const [dx, dy] = [across * PAN * width, down * PAN * height];
    this.view(dx, width + dx, dy, height + dy);
  }

  // Show what lies between these pixels of the present view.
  view(left, right, top, bottom) {
    const u = this.uplot;
    const [x, y] = [
      { min: u.posToVal(left, "x"), max: u.posToVal(right, "x") },
      { min: u.posToVal(bottom, "y"), max: u.posToVal(top, "y") },
    ];
    const covers = (view, whole) => view.min <= whole.min * (1 + ROUNDING) && view.max >= whole.max * (1 - ROUNDING);
    if (covers(x, this.whole.x) && covers(y, this.whole.y)) {
      this.reset();
      return;
    }
    this.unpin();
    this.leave();
    u.batch(() => {
      u.setScale("x", x);
      u.setScale("y", y);
    });
  }

  reset() {
    this.unpin();
    this.leave();
    this.uplot.setData(this.uplot.data);
  }

  // What the reader does

  listen(over) {
    let began = [0, 0];
    over.addEventListener("mousedown", (event) => {
      began = [event.clientX, event.clientY];
      if (this.pinned) this.unpin();
      this.plot.focus({ preventScroll: true });
    });
    over.addEventListener("click", (event) => {
      if (Math.hypot(event.clientX - began[0], event.clientY - began[1]) > DRAGGED) return;
      const box = over.getBoundingClientRect();
      const found = this.nearest(event.clientX - box.left, event.clientY - box.top);
      if (!found) return;
      this.point(found);
      this.pin();
    });
    over.addEventListener(
      "wheel",
      (event) => {
        // Without either, the wheel scrolls the page.
        if (!event.ctrlKey && !event.metaKey && !this.plot.matches(":focus")) return;
        event.preventDefault();
        const box = over.getBoundingClientRect();
        const factor = event.deltaY < 0 ? 1 / ZOOM : ZOOM;
        this.zoom(factor, event.clientX - box.left, event.clientY - box.top);
      },
      { passive: false },
    );
    over.addEventListener("mouseleave", () => {
      if (!this.pinned) this.leave();
    });
  }

  // The points in view along a line, in order of size.
  inView(line) {
    return line.points
      .map((point) => ({ line, point, place: this.place(line, point) }))
      .filter(({ place }) => place);
  }

  // Go so many points along the line, or so many lines down.
  step(along, down) {
    const lines = this.lines.filter((line) => this.inView(line).length);
    if (!lines.length) return;
    let index = this.at ? lines.indexOf(this.at.line) : -1;
    const isNew = index < 0;
    if (!isNew) index = (index + down + lines.length) % lines.length;
    const points = this.inView(lines[Math.max(0, index)]);
    let place = 0;
    if (!isNew) {
      const at = this.at.point.at;
      const distances = points.map(({ point }) => Math.abs(Math.log(point.at / at)));
      place = distances.indexOf(Math.min(...distances)) + along;
      place = Math.min(points.length - 1, Math.max(0, place));
    }
    this.point(points[place]);
    const { line, point } = points[place];
    const facts = this.factsOf(line, point).map(([term, text]) => `${term} ${text}`);
    this.said.textContent = [this.nameOf(line), ...facts, `${word("run")} ${point.run}`].join(", ");
  }

  onKey(event) {
    if (event.target !== this.plot) {
      if (event.key === "Escape") this.unpin(true);
      return;
    }
    const arrows = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in arrows) this[event.shiftKey ? "pan" : "step"](...arrows[event.key]);
    else if (event.key === "+" || event.key === "=") this.zoom(1 / ZOOM);
    else if (event.key === "-") this.zoom(ZOOM);
    else if (event.key === "0") this.reset();
    else if (event.key === "Escape") {
      this.unpin();
      this.leave();
    } else if (event.key === "Enter" && this.at) {
      this.pin();
      this.tip.querySelector("a").focus();
    } else return;
    event.preventDefault();
  }
}

// The links to the files of each run's records, from the appendix: a run's first row has its number,
// and those of its other processes follow without one.
const RECORDS = new Map();
let files = [];
for (const row of document.querySelectorAll(".runs tbody tr")) {
  if (row.id) RECORDS.set(Number(row.id.replace("run-", "")), (files = []));
  files.push(...row.querySelectorAll("a"));
}

// A chart is made when it comes near the screen, and again in another language.
const EXPLORERS = [...document.querySelectorAll(".explorer")].map((holder) => new Explorer(holder));

const nearing = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      nearing.unobserve(entry.target);
      EXPLORERS.find(({ holder }) => holder === entry.target).build();
    }
  },
  { rootMargin: "600px" },
);
for (const { holder } of EXPLORERS) nearing.observe(holder);

function redrawCharts() {
  for (const explorer of EXPLORERS) if (explorer.uplot) explorer.build();
}

function leaveOutOfCharts(names) {
  for (const explorer of EXPLORERS) {
    explorer.left = names;
    if (explorer.uplot) explorer.draw();
  }
}

// A link to a static figure shows the chart that stands for it; whether there is one.
function showChart(figure) {
  const explorer = EXPLORERS.find(({ charts }) => charts.some((chart) => figure in chart.figures));
  if (!explorer) return false;
  const chart = explorer.charts.find((each) => figure in each.figures);
  explorer.show(chart, chart.figures[figure]);
  nearing.unobserve(explorer.holder);
  explorer.build();
  explorer.holder.scrollIntoView();
  explorer.plot.focus({ preventScroll: true });
  return true;
}

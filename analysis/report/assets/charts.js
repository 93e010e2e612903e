// Draw lines and dots with uPlot; hover shows the trial of the nearest one, a click opens it.

const NEAR = 28; // pixels
const charts = []; // { host, make, plot, width }
let colours = {};
const tip = element("div", { id: "tip", hidden: true });
tip.setAttribute("role", "status");

function repaint() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["ink", "muted", "line", "paper", "validation", "default"]) {
    colours[name] = style.getPropertyValue(`--${name}`).trim();
  }
  charts.forEach(({ plot }) => plot && plot.redraw && plot.redraw(false));
}

// Register a chart; it is drawn when its place can be seen, as wide as that is.
function addChart(host, make) {
  charts.push({ host, make });
}

function drawVisible() {
  for (let i = charts.length - 1; i >= 0; i--) {
    const chart = charts[i];
    if (!chart.host.isConnected) charts.splice(i, 1);
    const width = chart.host.clientWidth;
    if (!width || width === chart.width) continue;
    if (chart.plot && chart.plot.setSize) chart.plot.setSize({ width, height: chart.plot.height });
    else chart.plot = chart.make(width);
    chart.width = width;
  }
}

function showTip(text, event) {
  tip.textContent = text;
  tip.hidden = false;
  const right = event.clientX + 14 + tip.offsetWidth > innerWidth;
  const below = event.clientY + 14 + tip.offsetHeight > innerHeight;
  tip.style.left = `${Math.max(4, right ? event.clientX - 14 - tip.offsetWidth : event.clientX + 14)}px`;
  tip.style.top = `${Math.max(4, below ? event.clientY - 14 - tip.offsetHeight : event.clientY + 14)}px`;
}

const short = (value) => (typeof value === "number" ? String(+value.toPrecision(3)) : String(value));

function padded(values, share = 0.06) {
  const low = Math.min(...values), high = Math.max(...values);
  const edge = (high - low) * share || Math.abs(high) * 0.05 || 0.5;
  return [low - edge, high + edge];
}

// Return how a parameter's values lie on an axis: words at whole numbers, wide ranges by magnitude.
function scaleOf(values) {
  const known = values.filter((value) => value !== null && value !== undefined);
  if (known.some((value) => typeof value !== "number")) {
    const words = [...new Set(known.map(String))].sort();
    return { words, place: (value) => words.indexOf(String(value)), range: [-0.5, words.length - 0.5] };
  }
  const low = Math.min(...known), high = Math.max(...known);
  const log = low > 0 && high / low >= 50;
  const edge = log ? (high / low) ** 0.05 : 1;
  return { log, place: (value) => value, range: log ? [low / edge, high * edge] : padded(known) };
}

function axisOf(label, scale, size) {
  const axis = {
    label, labelSize: label === undefined ? 0 : 18, labelFont: "11px system-ui", labelGap: 0,
    font: "11px system-ui", size, gap: 4, ticks: { show: false },
    stroke: () => colours.muted, grid: { stroke: () => colours.line, width: 1 },
  };
  if (scale.words) {
    axis.splits = () => scale.words.map((_, i) => i);
    axis.values = () => scale.words;
  } else if (scale.log) {
    const [low, high] = scale.range;
    axis.splits = () => [0.08, 0.36, 0.64, 0.92].map((share) => low * (high / low) ** share);
    axis.filter = (_, splits) => splits;
    axis.values = (_, splits) => splits.map((value) => String(+value.toPrecision(2)));
  } else {
    axis.values = (_, splits) => splits.map((value) => String(+value.toPrecision(6)));
    axis.space = label === undefined ? 26 : 44;
    if (scale.whole) axis.incrs = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
  }
  return axis;
}

// Return uPlot's columns of groups of points [x, y, trial], and whose each of them is.
function columnsOf(groups, aligned) {
  const all = groups.flatMap((group) => group.points.map(([x]) => x)).sort((a, b) => a - b);
  const xs = aligned ? [...new Set(all)] : all;
  const places = new Map();
  xs.forEach((x, i) => places.has(x) || places.set(x, i));
  const taken = new Map();
  const owners = groups.map(() => []);
  const columns = groups.map((group, g) => {
    const column = new Array(xs.length).fill(null);
    group.points.forEach(([x, y, trial]) => {
      const place = places.get(x) + (aligned ? 0 : taken.get(x) || 0);
      if (!aligned) taken.set(x, (taken.get(x) || 0) + 1);
      column[place] = y;
      owners[g][place] = trial;
    });
    return column;
  });
  return { data: [xs, ...columns], owners };
}

function seriesOf(group) {
  const colour = () => colours[group.colour] + (group.faint ? "59" : "");
  const dot = () => (group.hollow ? colours.paper : colour());
  const line = group.line ? (group.line === "step" ? uPlot.paths.stepped({ align: 1 }) : undefined) : () => null;
  return {
    stroke: colour, width: group.faint ? 1 : group.width || 1.6, dash: group.dash, spanGaps: true,
    ...(line ? { paths: line } : {}),
    points: {
      show: Boolean(group.dots || group.chosen), size: group.dots || 7, width: 1.3, stroke: colour, fill: dot,
      ...(group.chosen ? { fill: () => colours.paper, filter: (u, s) => chosenPlaces(u.data, s, group) } : {}),
    },
  };
}

function chosenPlaces(data, series, group) {
  const away = data[0].map((x, i) => (data[series][i] === null ? Infinity : Math.abs(x - group.chosen)));
  return [away.indexOf(Math.min(...away))];
}

// Return the distance in pixels from a point to the line between two others, or to the first.
function distance([x, y], [ax, ay], [bx, by]) {
  const length = (bx - ax) ** 2 + (by - ay) ** 2;
  const share = length ? Math.max(0, Math.min(1, ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / length)) : 0;
  return Math.hypot(x - ax - share * (bx - ax), y - ay - share * (by - ay));
}

// Return the trial nearest to the pointer, with its series and its place.
function nearest(plot, groups, owners, pointer) {
  let found = { away: NEAR };
  groups.forEach((group, g) => {
    if (group.silent) return;
    let before = null;
    owners[g].forEach((trial, i) => {
      const here = [plot.valToPos(plot.data[0][i], "x"), plot.valToPos(plot.data[g + 1][i], "y")];
      const away = distance(pointer, group.line && before ? before : here, here);
      if (away < found.away) found = { away, trial, series: g + 1, here };
      before = here;
    });
  });
  return found;
}

function drawPlot(host, { groups, x, y, aligned = false, height = 190 }, width) {
  const { data, owners } = columnsOf(groups, aligned);
  const plot = new uPlot({
    width, height, legend: { show: false }, cursor: { show: false }, focus: { alpha: 0.25 }, padding: [8, 8, 0, 0],
    scales: { x: { time: false, distr: x.log ? 3 : 1, range: () => x.range }, y: { range: () => y.range } },
    axes: [axisOf(x.label, x, 24), axisOf(undefined, y, 40)],
    series: [{}, ...groups.map(seriesOf)],
  }, data, host);
  const ring = element("div", { className: "ring", hidden: true });
  plot.over.append(ring);
  const look = (event) => {
    const box = plot.over.getBoundingClientRect();
    const hit = nearest(plot, groups, owners, [event.clientX - box.left, event.clientY - box.top]);
    ring.hidden = !hit.trial || groups[hit.series - 1].line !== undefined;
    tip.hidden = !hit.trial;
    if (groups.length > 1 && aligned) plot.setSeries(hit.trial ? hit.series : null, { focus: true });
    if (!hit.trial) return hit;
    [ring.style.left, ring.style.top] = hit.here.map((place) => `${place}px`);
    showTip(describe(hit.trial), event);
    return hit;
  };
  plot.over.addEventListener("pointermove", look);
  plot.over.addEventListener("pointerleave", () => {
    ring.hidden = tip.hidden = true;
    if (aligned) plot.setSeries(null, { focus: true });
  });
  plot.over.addEventListener("click", (event) => {
    const { trial } = look(event);
    if (trial) openTrial(trial);
  });
  return plot;
}

function plotIn(parent, title, options) {
  const host = element("div", { className: "chart" });
  if (title) host.append(element("h4", { textContent: title }));
  const place = element("div");
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", `${title || "Chart"}; the table of trials has the same numbers.`);
  host.append(place);
  parent.append(host);
  addChart(place, (width) => drawPlot(place, options, width));
}

// Show every trial: filters, charts of the search, a table that sorts, one trial with its curve.

const AT_FIRST = 100; // rows of the table
const chosen = { place: "", protocol: "", loss: "", role: "", replicate: "", text: "" };
const order = { key: "", down: false };
let everything = false;
let study = null;

function readStudy() {
  const source = document.getElementById("data");
  if (!source) return null;
  const found = JSON.parse(source.textContent);
  found.trials = found.trials.map((line, index) => {
    const trial = { index };
    found.columns.forEach((name, i) => {
      trial[name] = name in found.words ? found.words[name][line[i]] : line[i];
    });
    const flat = trial.setting;
    trial.setting = {};
    for (let i = 0; i < flat.length; i += 2) trial.setting[found.params[flat[i]]] = flat[i + 1];
    return trial;
  });
  return found;
}

const percent = (value, mark) => (value === null ? "–" : value.toFixed(2) + mark);
const settingText = (trial) => Object.entries(trial.setting).map(([name, value]) => `${name} ${short(value)}`).join(", ");
const nameOf = (trial) => `${trial.role} ${trial.number}`;

function describe(trial) {
  const lines = [`${trial.loss}, ${nameOf(trial)}, replicate ${trial.replicate}`];
  if (trial.score !== null) lines.push(`${study.metric} ${percent(trial.score, trial.mark)}`);
  if (trial.test !== null) lines.push(`test Recall@1 ${percent(trial.test, trial.mark)}`);
  lines.push(...Object.entries(trial.setting).map(([name, value]) => `${name} = ${value}`));
  return lines.join("\n");
}

// Points of a trial's curve; scores in percent.
function curveOf(trial, kind = "curves") {
  const found = study[kind][trial.index];
  if (!found) return [];
  const [epochs, values] = found;
  return values
    .map((value, i) => [Array.isArray(epochs) ? epochs[i] : epochs + i, value === null || kind === "train" ? value : value / 100, trial])
    .filter(([, value]) => value !== null);
}

function matching(skip = []) {
  const text = chosen.text.toLowerCase();
  return study.trials.filter((trial) =>
    ["place", "protocol", "loss", "role", "replicate"].every(
      (key) => skip.includes(key) || !chosen[key] || String(trial[key]) === chosen[key],
    ) && (!text || `${trial.loss} ${trial.protocol} ${nameOf(trial)} ${trial.outcome} ${settingText(trial)}`.toLowerCase().includes(text)));
}

function offerFilters(bar) {
  const all = { place: "all comparisons", protocol: "all protocols", loss: "all losses", role: "all kinds", replicate: "all replicates" };
  const values = {
    place: study.places, loss: study.words.loss, protocol: study.words.protocol, role: study.words.role,
    replicate: [...new Set(study.trials.map((trial) => trial.replicate))].sort((a, b) => a - b),
  };
  for (const [key, options] of Object.entries(values)) {
    if (options.length < 2) continue;
    const select = element("select", { name: key }, new Option(all[key], ""));
    select.append(...options.map((option) => new Option(option, option)));
    select.value = chosen[key];
    select.addEventListener("change", () => { chosen[key] = select.value; update(); });
    bar.append(element("label", { textContent: key === "role" ? "kind" : key === "place" ? "comparison" : key }, select));
  }
  const input = element("input", { type: "search", name: "text", placeholder: "margin 0.1, diverged, ..." });
  input.addEventListener("input", () => { chosen.text = input.value; update(); });
  bar.append(element("label", { textContent: "words" }, input));
}

function update() {
  everything = false;
  showCharts();
  showRows();
  drawVisible();
}

// Search trials to draw: those of one comparison and protocol, because each has classes of its own.
function drawnTrials() {
  const every = matching(["role"]).filter((trial) => trial.role === "search" && trial.score !== null);
  const found = every.filter((trial) => trial.place === every[0].place);
  const protocols = [...new Set(found.map((trial) => trial.protocol))];
  const honest = protocols.filter((name) => found.some((trial) => trial.protocol === name && !trial.mark));
  const protocol = honest[0] || protocols[0];
  return { protocol, trials: found.filter((trial) => trial.protocol === protocol) };
}

function showCharts() {
  const place = document.getElementById("charts");
  const { protocol, trials } = drawnTrials();
  place.replaceChildren();
  if (!trials.length) {
    place.append(element("p", { className: "muted", textContent: "No search trial with a score matches." }));
    return;
  }
  const peeks = Boolean(trials[0].mark);
  const losses = study.words.loss.filter((loss) => trials.some((trial) => trial.loss === loss));
  const on = peeks ? "the test classes themselves*: what such tuning would have claimed; it ranks nothing" : "held-out train classes";
  const about = `${study.metric} of each search trial under ${protocol}, in percent, on ${on}. Filled: run to the end; hollow: ended early; large: the published setting. The line is the best so far of each search. Scores of different replicates are from different splits. Hover shows a trial, a click opens it.`;
  place.append(element("p", { className: "muted", textContent: about }));
  const names = losses.length === 1 ? [...new Set(trials.flatMap((trial) => Object.keys(trial.setting)))] : [];
  if (names.length) {
    const host = element("div", { className: "chart" }, element("h4", { textContent: `${losses[0]}: settings that were tried` }));
    const inner = host.appendChild(element("div"));
    place.append(host);
    addChart(inner, (width) => drawParallel(inner, trials, names, width));
  }
  const grid = place.appendChild(element("div", { className: "charts" }));
  const y = { range: padded(trials.map((trial) => trial.score)) };
  losses.forEach((loss) => {
    const mine = trials.filter((trial) => trial.loss === loss);
    const x = { label: "search trial", whole: true, range: [-0.7, Math.max(...mine.map((trial) => trial.number)) + 0.7] };
    plotIn(grid, names.length ? "In the order of the search" : loss, { groups: historyOf(mine, peeks), x, y });
  });
  names.forEach((name) => {
    const mine = trials.filter((trial) => name in trial.setting);
    const scale = scaleOf(mine.map((trial) => trial.setting[name]));
    const groups = dotsOf(mine, (trial) => scale.place(trial.setting[name]), peeks);
    plotIn(grid, name, { groups, x: { ...scale, label: "" }, y });
  });
}

function dotsOf(trials, x, peeks) {
  const colour = peeks ? "default" : "validation";
  const kinds = [
    [{ colour, dots: 6, hollow: true }, (trial) => trial.number && trial.outcome !== "finished"],
    [{ colour, dots: 6 }, (trial) => trial.number && trial.outcome === "finished"],
    [{ colour: "ink", dots: 9 }, (trial) => !trial.number],
  ];
  return kinds.map(([look, fits]) => ({ ...look, points: trials.filter(fits).map((trial) => [x(trial), trial.score, trial]) }));
}

function historyOf(trials, peeks) {
  const replicates = [...new Set(trials.map((trial) => trial.replicate))];
  const best = replicates.map((replicate) => {
    let top = -Infinity;
    const mine = trials.filter((trial) => trial.replicate === replicate).sort((a, b) => a.number - b.number);
    const points = mine.map((trial) => [trial.number, (top = Math.max(top, trial.score)), trial]);
    return { colour: peeks ? "default" : "validation", line: "step", silent: true, points };
  });
  return [...best, ...dotsOf(trials, (trial) => trial.number, peeks)];
}

// Columns of the table: key, heading, text, and what it is sorted by.
function columnsShown() {
  const several = (name) => study.words[name].length > 1 && !chosen[name];
  const params = chosen.loss ? [...new Set(matching().flatMap((trial) => Object.keys(trial.setting)))] : [];
  const text = "text";
  return [
    ["name", "trial", nameOf, (trial) => trial.index, text],
    ...(several("loss") ? [["loss", "loss", (trial) => trial.loss, (trial) => trial.loss, text]] : []),
    ...(several("protocol") ? [["protocol", "protocol", (trial) => trial.protocol, (trial) => trial.protocol, text]] : []),
    ...(chosen.replicate ? [] : [["replicate", "replicate", (trial) => trial.replicate, (trial) => trial.replicate]]),
    ["score", `${study.metric}, %`, (trial) => percent(trial.score, trial.mark), (trial) => trial.score],
    ["test", "test Recall@1, %", (trial) => percent(trial.test, trial.mark), (trial) => trial.test],
    ["epochs", "epochs", (trial) => trial.epochs ?? "–", (trial) => trial.epochs],
    ["seconds", "seconds", (trial) => trial.seconds ?? "–", (trial) => trial.seconds],
    ["outcome", "ended", (trial) => trial.outcome, (trial) => trial.outcome, text],
    ...params.map((name) => [name, name, (trial) => (name in trial.setting ? short(trial.setting[name]) : "–"), (trial) => trial.setting[name] ?? null]),
    ...(params.length ? [] : [["setting", "setting", settingText, settingText, "text setting"]]),
  ];
}

function showRows() {
  const columns = columnsShown();
  const found = matching();
  const by = columns.find(([key]) => key === order.key);
  if (by) {
    found.sort((one, other) => {
      const [a, b] = [by[3](one), by[3](other)];
      if (a === null || b === null) return (a === null) - (b === null);
      return (order.down ? -1 : 1) * compare(a, b) || one.index - other.index;
    });
  }
  const shown = everything ? found : found.slice(0, AT_FIRST);
  const table = document.querySelector("table.trials");
  table.tHead.replaceChildren(element("tr", {}, ...columns.map(headOf)));
  table.tBodies[0].replaceChildren(...shown.map((trial) => rowOf(trial, columns)));
  const more = document.getElementById("more");
  more.hidden = shown.length === found.length;
  more.textContent = `Show all ${found.length.toLocaleString("en")}`;
  document.getElementById("count").textContent =
    `${found.length.toLocaleString("en")} of ${study.trials.length.toLocaleString("en")} trials. A click on a row opens the trial.`;
}

function headOf([key, heading, , , kind]) {
  const head = element("th", { scope: "col", className: `${kind || ""} sorts`, tabIndex: 0, textContent: heading, title: "sort by this column" });
  if (order.key === key) head.setAttribute("aria-sort", order.down ? "descending" : "ascending");
  const sort = () => {
    Object.assign(order, { key, down: order.key === key ? !order.down : ["score", "test"].includes(key) });
    showRows();
    document.querySelector("table.trials th[aria-sort]").focus({ preventScroll: true });
  };
  head.addEventListener("click", sort);
  head.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    sort();
  });
  return head;
}

function rowOf(trial, columns) {
  const row = element("tr", {}, ...columns.map(([key, , text, , kind]) => {
    if (key === "name") return element("td", { className: kind }, element("button", { type: "button", textContent: text(trial) }));
    const marked = ["score", "test"].includes(key) && trial.mark === "*" ? "peeks" : "";
    return element("td", { className: [kind, marked].filter(Boolean).join(" "), textContent: text(trial) });
  }));
  row.dataset.trial = trial.index;
  row.addEventListener("click", () => openTrial(trial));
  return row;
}

// Open one trial: what it was, its setting, how it ended, its curves, where MLflow has it.
function openTrial(trial) {
  tip.hidden = true;
  const dialog = document.getElementById("trial");
  const body = document.getElementById("trial-body");
  document.getElementById("trial-name").textContent =
    [trial.loss, trial.protocol, `replicate ${trial.replicate}`, nameOf(trial)].join(" · ");
  const facts = [
    ["where", trial.place], [`${study.metric}, best`, percent(trial.score, trial.mark)], ["test Recall@1", percent(trial.test, trial.mark)],
    ["epochs", trial.epochs === null ? "–" : trial.chosen === null ? trial.epochs : `${trial.epochs}, epoch ${short(trial.chosen)} chosen`],
    ["seconds", trial.seconds ?? "–"], ["ended", trial.error ? `${trial.outcome}: ${trial.error}` : trial.outcome],
    ...Object.entries(trial.setting), ["MLflow", mlflowOf(trial)],
  ];
  body.replaceChildren(element("dl", {}, ...facts.flatMap(([name, value]) => [element("dt", { textContent: name }), element("dd", {}, value)])));
  const label = trial.mark === "*" ? `${study.metric} on the test classes*, %` : `${study.metric} on held-out classes, %`;
  const curves = [["curves", label], ["train", "training loss"]].filter(([kind]) => study[kind][trial.index]);
  const grid = body.appendChild(element("div", { className: curves.length > 1 ? "charts two" : "" }));
  curves.forEach(([kind, title]) => {
    const points = curveOf(trial, kind);
    const group = { colour: trial.mark === "*" ? "default" : "validation", line: true, dots: points.length < 40 ? 4 : 0, points };
    const x = { label: "epoch", whole: true, range: padded(points.map(([x]) => x), 0.03) };
    plotIn(grid, title, { groups: [group], x, y: { range: padded(points.map(([, y]) => y)) }, aligned: true, height: 230 });
  });
  if (!curves.length) grid.append(element("p", { className: "muted", textContent: "This page does not hold its curve." }));
  document.querySelectorAll("tr.current").forEach((row) => row.classList.remove("current"));
  document.querySelector(`tr[data-trial="${trial.index}"]`)?.classList.add("current");
  history.replaceState(null, "", `#search/${trial.index}`);
  if (!dialog.open) dialog.showModal();
  drawVisible();
}

function mlflowOf(trial) {
  if (!study.mlflow) return element("code", { textContent: "fairtrial ui" });
  const run = study.runs[trial.index];
  const href = run ? `${study.mlflow}/runs/${run}` : study.mlflow;
  return element("a", { href, rel: "noreferrer", textContent: run ? "its run" : "its study" });
}

// Learning curves of one comparison: a row of charts per protocol, one per loss, on one scale.
function showCurves(host) {
  host.dataset.protocols.split(" ").forEach((protocol) => {
    const trials = study.trials.filter((trial) => trial.place === host.dataset.place && trial.protocol === protocol
      && ["search", "final"].includes(trial.role) && study.curves[trial.index]);
    if (!trials.length) return;
    const peeks = trials[0].mark === "*";
    const about = peeks ? `Default setup*: every epoch scored on the test classes (peeks)` : `Validation setup (${protocol}): scored on held-out train classes; fewer classes, another scale`;
    host.append(element("h4", { textContent: about }));
    const grid = host.appendChild(element("div", { className: "charts" }));
    const points = new Map(trials.map((trial) => [trial, curveOf(trial)]));
    const every = [...points.values()].flat();
    const y = { range: padded(every.map(([, value]) => value)) };
    const x = { label: "epoch", whole: true, range: padded(every.map(([epoch]) => epoch), 0.03) };
    study.words.loss.forEach((loss) => {
      const mine = trials.filter((trial) => trial.loss === loss).sort((a, b) => (a.role === "final") - (b.role === "final"));
      const groups = mine.map((trial) => ({
        colour: peeks ? "default" : "validation", line: true, points: points.get(trial),
        ...(trial.role === "search" ? { faint: true } : { width: 2, chosen: trial.chosen, dash: peeks ? [6, 3] : undefined }),
      }));
      if (groups.length) plotIn(grid, loss, { groups, x, y, aligned: true, height: 180 });
    });
  });
  host.append(element("p", { className: "note", textContent: `${study.metric} in percent on the classes that choose the epoch. Strong lines: final trials, each with its chosen epoch; faint: search trials. Hover shows a trial, a click opens it.` }));
}

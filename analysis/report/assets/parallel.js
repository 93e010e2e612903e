// Draw parallel coordinates: an axis per parameter, a line per trial, stronger for better.

const SVG = "http://www.w3.org/2000/svg";

function drawn(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  Object.entries(attributes).forEach(([name, value]) => made.setAttribute(name, value));
  if (text !== undefined) made.textContent = text;
  return made;
}

// Return where each axis puts a trial, from 0 at its low end to 1 at its high end.
function axesOf(trials, names) {
  const axes = names.map((name) => {
    const values = trials.map((trial) => trial.setting[name]);
    const scale = scaleOf(values);
    const known = values.filter((value) => value !== undefined);
    const places = known.map(scale.place);
    const low = Math.min(...places), high = Math.max(...places);
    const bend = scale.log ? Math.log : (value) => value;
    const share = (value) => (high > low ? (bend(value) - bend(low)) / (bend(high) - bend(low)) : 0.5);
    const ends = scale.words ? [scale.words[0], scale.words[scale.words.length - 1]] : [short(low), short(high)];
    return { name, ends, at: (trial) => (name in trial.setting ? share(scale.place(trial.setting[name])) : 0.5) };
  });
  const scores = trials.map((trial) => trial.score), low = Math.min(...scores), high = Math.max(...scores);
  const last = { name: study.metric, ends: [low.toFixed(1), high.toFixed(1)] };
  return [...axes, { ...last, at: (trial) => (high > low ? (trial.score - low) / (high - low) : 0.5) }];
}

function drawParallel(host, trials, names, width) {
  const height = 250, narrow = width < 560, top = narrow ? 52 : 38, bottom = 22, side = Math.min(60, width / 8);
  const axes = axesOf(trials, names);
  const x = (i) => side + (i * (width - 2 * side)) / (axes.length - 1);
  const y = (share) => height - bottom - share * (height - top - bottom);
  const picture = drawn("svg", { class: "parallel", height, role: "img", "aria-label": "Parallel coordinates of the settings that were tried" });
  axes.forEach((axis, i) => {
    picture.append(
      drawn("line", { class: "bar", x1: x(i), x2: x(i), y1: y(0), y2: y(1) }),
      drawn("text", { class: "name", x: x(i), y: i % 2 && narrow ? 26 : 12 }, axis.name),
      drawn("text", { x: x(i), y: height - 6 }, axis.ends[0]),
      drawn("text", { x: x(i), y: top - 4 }, axis.ends[1]),
    );
  });
  const lines = [...trials].sort((a, b) => a.score - b.score).map((trial, rank) => {
    const heights = axes.map((axis) => y(axis.at(trial)));
    const strong = 0.25 + 0.75 * ((rank + 1) / trials.length) ** 2;
    const kind = trial.number === 0 ? "published" : trial.mark ? "peeking" : "";
    const path = drawn("path", {
      class: kind, d: heights.map((each, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${each.toFixed(1)}`).join(""),
      opacity: kind === "published" ? 1 : strong.toFixed(2), "stroke-width": (0.7 + 1.4 * strong).toFixed(2),
    });
    picture.append(path);
    return { trial, heights, path };
  });
  listen(picture, lines, x, axes.length - 1);
  host.replaceChildren(picture);
}

function listen(picture, lines, x, last) {
  const look = (event) => {
    const box = picture.getBoundingClientRect();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    const left = Math.max(0, Math.min(last - 1, Math.floor(((px - x(0)) / (x(last) - x(0))) * last)));
    const share = (px - x(left)) / (x(left + 1) - x(left));
    let found = { away: NEAR };
    lines.forEach((line) => {
      const here = line.heights[left] + share * (line.heights[left + 1] - line.heights[left]);
      if (Math.abs(here - py) < found.away) found = { away: Math.abs(here - py), line };
    });
    lines.forEach(({ path }) => path.classList.remove("over"));
    tip.hidden = !found.line;
    if (!found.line) return undefined;
    found.line.path.classList.add("over");
    showTip(describe(found.line.trial), event);
    return found.line.trial;
  };
  picture.addEventListener("pointermove", look);
  picture.addEventListener("pointerleave", () => {
    tip.hidden = true;
    lines.forEach(({ path }) => path.classList.remove("over"));
  });
  picture.addEventListener("click", (event) => {
    const trial = look(event);
    if (trial) openTrial(trial);
  });
}

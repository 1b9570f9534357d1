// Axes, lines with bands, legends.
const MARGIN = { left: 40, right: 20, top: 10, bottom: 38 };
const DASHES = { validation: "", test: "7 4", train: "2 3" };

function niceTicks(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) ticks.push(i * step);
  return ticks;
}

// Powers of ten, few enough to be read; with 2 and 5 between them where there is room.
function logTicks(low, high, count) {
  const [first, last] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
  if (last - first < 2) {
    const between = [];
    for (let e = first - 1; e <= last; e++) for (const m of [1, 2, 5]) between.push(m * 10 ** e);
    const inside = between.filter((t) => t >= low && t <= high);
    return inside.length > 1 ? inside : niceTicks(low, high, count);
  }
  const step = Math.max(1, Math.ceil((last - first) / Math.max(2, count)));
  const ticks = [];
  for (let e = first; e <= last; e += step) ticks.push(10 ** e);
  return ticks;
}

// A tick as text, with as many digits as tell it from its neighbours: 0.25 needs one more than 0.2.
function tickText(x, step) {
  if (x === 0) return "0";
  const place = (v) => Math.floor(Math.log10(Math.abs(v)) + 1e-9);
  const exact = +x.toPrecision(Math.min(Math.max(place(x) - place(step) + 2, 1), 15)); // there are no more in a double
  if (Math.abs(x) >= 1e6 || Math.abs(x) < 1e-4) return exact.toExponential().replace("e+", "e");
  return Math.abs(x) >= 1e4 ? `${+(exact / 1000).toPrecision(12)}k` : String(exact);
}

// A little air around values; a range that is never empty.
function domainOf(values, air = 0.06) {
  const finite = values.filter(known);
  if (!finite.length) return [0, 1];
  let low = Math.min(...finite);
  let high = Math.max(...finite);
  const pad = (high - low) * air || Math.abs(high) * 0.05 || 0.5;
  return [low - pad, high + pad];
}

// Axes with their names; returns the drawing and where a value stands.
function axes(width, height, x, y) {
  const inner = { left: MARGIN.left + (y.label ? 18 : 0), right: width - MARGIN.right, top: MARGIN.top, bottom: height - MARGIN.bottom };
  const scale = (axis, from, to) => {
    const of = axis.log ? Math.log10 : (v) => v;
    const [low, high] = [of(axis.low), of(axis.high)];
    return (v) => from + ((of(v) - low) / (high - low)) * (to - from);
  };
  const px = scale(x, inner.left, inner.right);
  const py = scale(y, inner.bottom, inner.top);
  const ticksOf = (axis, room) => (axis.log ? logTicks : niceTicks)(axis.low, axis.high, Math.max(2, Math.floor(room)));
  const texts = (ticks) => ticks.map((t) => tickText(t, ticks.length > 1 ? ticks[1] - ticks[0] : t));
  const parts = [];
  const [yTicks, xTicks] = [ticksOf(y, (inner.bottom - inner.top) / 36), ticksOf(x, (inner.right - inner.left) / 62)];
  const [yTexts, xTexts] = [texts(yTicks), texts(xTicks)];
  for (const [i, t] of yTicks.entries()) {
    parts.push(`<line class="grid" x1="${inner.left}" x2="${inner.right}" y1="${py(t)}" y2="${py(t)}"/>`);
    parts.push(`<text class="soft" x="${inner.left - 6}" y="${py(t) + 4}" text-anchor="end">${yTexts[i]}</text>`);
  }
  for (const [i, t] of xTicks.entries()) {
    parts.push(`<line class="axis" x1="${px(t)}" x2="${px(t)}" y1="${inner.bottom}" y2="${inner.bottom + 4}"/>`);
    parts.push(`<text class="soft" x="${px(t)}" y="${inner.bottom + 17}" text-anchor="middle">${xTexts[i]}</text>`);
  }
  parts.push(`<path class="axis" d="M${inner.left},${inner.top}V${inner.bottom}H${inner.right}"/>`);
  parts.push(`<text x="${(inner.left + inner.right) / 2}" y="${height - 5}" text-anchor="middle">${safe(x.label)}</text>`);
  if (y.label) parts.push(`<text transform="translate(12,${(inner.top + inner.bottom) / 2}) rotate(-90)" text-anchor="middle">${safe(y.label)}</text>`);
  return { parts, px, py, inner };
}

// Panels side by side. All are put there before any is drawn, since each takes its width from its neighbours.
function linePanels(host, panels) {
  const figures = panels.map(() => host.appendChild(document.createElement("figure")));
  panels.forEach((panel, i) => linePanel(figures[i], panel));
}

// One panel of lines. A series is {name, cls, dash, x, mean, low, high}; a reference is {y, name}.
function linePanel(figure, { title, x, y, series, references = [], height = 200 }) {
  const width = Math.max(220, figure.clientWidth || 300);
  const values = series.flatMap((s) => [...s.mean, ...(s.low || []), ...(s.high || [])]).filter((v) => known(v) && (!y.log || v > 0));
  const xs = series.flatMap((s) => s.x);
  const [low, high] = y.log ? [Math.min(...values, 1e9) / 1.2, Math.max(...values, 1e-9) * 1.2] : y.range || domainOf([...values, ...references.map((r) => r.y)]);
  const frame = axes(width, height, { low: Math.min(...xs), high: Math.max(...xs), ...x }, { ...y, low, high });
  for (const r of references) {
    frame.parts.push(`<line class="reference" x1="${frame.inner.left}" x2="${frame.inner.right}" y1="${frame.py(r.y)}" y2="${frame.py(r.y)}"/>`);
    frame.parts.push(`<text class="soft" x="${frame.inner.right - 3}" y="${frame.py(r.y) - 4}" text-anchor="end">${safe(r.name)}</text>`);
  }
  const at = (s, i, column) => `${frame.px(s.x[i]).toFixed(1)},${frame.py(y.log ? Math.max(column[i], low) : column[i]).toFixed(1)}`;
  for (const s of series) {
    const there = s.x.map((_, i) => i).filter((i) => known(s.mean[i]));
    if (s.low) {
      const path = [...there.map((i) => at(s, i, s.high)), ...there.slice().reverse().map((i) => at(s, i, s.low))].join("L");
      if (path) frame.parts.push(`<path class="band ${s.cls}" d="M${path}Z"/>`);
    }
    const path = there.map((i) => at(s, i, s.mean)).join("L");
    if (path) frame.parts.push(`<path class="mean ${s.cls}" stroke-dasharray="${s.dash || ""}" d="M${path}"/>`);
  }
  const said = series.map((s) => {
    const finite = s.mean.filter(known);
    return `${s.name}: from ${format(finite[0])} to ${format(finite[finite.length - 1])}`;
  }).join("; ");
  figure.innerHTML = `<figcaption>${safe(title)}</figcaption><svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${safe(`${title}. ${said}.`)}">${frame.parts.join("")}</svg>`;
}

// Runs by colour, splits by dashes; nothing where there is nothing to tell apart.
function legend(host, entries) {
  host.innerHTML = entries.length < 2 ? "" : entries
    .map((e) => `<span class="${e.cls}"><svg viewBox="0 0 26 12" aria-hidden="true"><line class="mean" stroke-dasharray="${e.dash || ""}" x1="0" x2="26" y1="6" y2="6"/>${e.mark ? `<g transform="translate(13,6)">${e.mark}</g>` : ""}</svg>${safe(e.name)}</span>`)
    .join("");
}

function runEntries(has) {
  const entries = runs.map((run, i) => ({ name: run.label, cls: runClass(i), mark: SHAPES[i % SHAPES.length](4), there: has(run) }));
  return entries.filter((e) => e.there);
}

// Faithfulness over the uniform timescale.
function startTime() {
  const select = byId("time-split");
  const splits = splitsOf("curves");
  fill(select, [...splits.map((s) => [s, s]), ["all", "all, as dashes"]]);
  const draw = () => {
    const chosen = select.value === "all" ? splits : [select.value];
    const entries = runEntries((run) => run.curves);
    const dashes = chosen.length > 1 ? chosen.map((s) => ({ name: s, cls: "run5", dash: DASHES[s] })) : [];
    legend(byId("time-legend"), [...(entries.length > 1 || !dashes.length ? entries : []), ...dashes]);
    const names = new Set(runs.flatMap((run) => chosen.flatMap((s) => Object.keys((run.curves || {})[s] || {}))));
    drawCurves(byId("time-internal"), [...names].filter((n) => n.startsWith("internal/")), chosen);
    drawCurves(byId("time-external"), [...names].filter((n) => n.startsWith("external/meant")), chosen);
  };
  select.addEventListener("change", draw);
  drawn(draw);
}

function drawCurves(host, names, splits) {
  host.textContent = names.length ? "" : "Not measured.";
  linePanels(host, names.sort((a, b) => inOrder(a) - inOrder(b)).map((name) => {
    const series = runs.flatMap((run, i) => splits.filter((s) => ((run.curves || {})[s] || {})[name]).map((s) => {
      const band = run.curves[s][name];
      const x = band.mean.map((_, k) => (k + 0.5) / band.mean.length);
      return { name: `${run.label}, ${s}`, cls: runClass(i), dash: splits.length > 1 ? DASHES[s] : "", x, ...band };
    }));
    const uniform = runs.length === 1 && splits.length === 1 ? ((runs[0].baselines[splits[0]] || {}).uniform || {})[name] : null;
    const references = known(uniform) ? [{ y: uniform, name: "uniform attention" }] : [];
    return { title: labelOf(name), x: { label: "share of the execution", low: 0, high: 1 }, y: { range: [0, 1.02] }, series, references };
  }));
}

function startLearning() {
  drawn(() => {
    const host = byId("learning-figures");
    host.textContent = "";
    legend(byId("learning-legend"), runEntries((run) => run.history));
    linePanels(host, [["loss", true], ["validation", false]].map(([name, log]) => {
      const series = runs.map((run, i) => ({ run, i })).filter(({ run }) => run.history)
        .map(({ run, i }) => ({ name: run.label, cls: runClass(i), x: run.history.step, ...run.history[name] }));
      return { title: name === "loss" ? "training loss" : "validation score", x: { label: "step" }, y: { log }, series, height: 240 };
    }));
  });
}

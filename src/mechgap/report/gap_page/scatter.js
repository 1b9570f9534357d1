// Score against faithfulness: every point opens a network in the viewer.
const SHAPES = [
  (r) => `<circle class="dot" r="${r}"/>`,
  (r) => `<rect class="dot" x="${-r * 0.9}" y="${-r * 0.9}" width="${r * 1.8}" height="${r * 1.8}"/>`,
  (r) => `<path class="dot" d="M0,${-r * 1.2}L${r * 1.1},${r * 0.9}H${-r * 1.1}Z"/>`,
  (r) => `<path class="dot" d="M0,${-r * 1.35}L${r * 1.35},0L0,${r * 1.35}L${-r * 1.35},0Z"/>`,
];

function startScatter() {
  const [measure, split, baselines] = ["scatter-measure", "scatter-split", "scatter-baselines"].map(byId);
  const splits = splitsOf("measures");
  fill(split, splits.map((s) => [s, s]));
  const names = [...new Set(runs.flatMap((run) => splits.flatMap((s) => Object.keys((run.measures || {})[s] || {}))))];
  names.sort((a, b) => inOrder(a) - inOrder(b));
  const group = (label, start) => ({ label, options: names.filter((n) => n.startsWith(start)).map((n) => [n, labelOf(n)]) });
  const groups = [group("internal: attention", "internal/"), group("external: traces", "external/"), group("external: benchmark", "hint_score/")];
  fill(measure, groups.filter((g) => g.options.length), names.find((n) => n === "internal/rows") || names.find((n) => n === "external/meant"));
  const draw = () => drawScatter(measure.value, split.value, baselines.checked);
  for (const control of [measure, split, baselines]) control.addEventListener("change", draw);
  drawn(draw);
  const host = byId("scatter-plot");
  host.addEventListener("click", (event) => openPoint(nearestPoint(event)));
  host.addEventListener("keydown", walkPoints);
}

function scatterPoints(measure, split) {
  return runs.flatMap((run, r) => (run.score ? run.seeds : []).map((seed, m) => (
    { r, m, seed, x: ((run.measures[split] || {})[measure] || [])[m], y: run.score[m], sound: run.sound[m] }
  ))).filter((p) => p.sound && known(p.x) && known(p.y)).sort((a, b) => a.x - b.x);
}

function drawScatter(measure, split, withBaselines) {
  const host = byId("scatter-plot");
  const points = scatterPoints(measure, split);
  const width = Math.max(280, host.clientWidth || 700);
  const height = Math.min(430, Math.max(280, width * 0.5));
  const held = withBaselines ? runs.flatMap((run, r) => Object.entries((run.baselines || {})[split] || {}).map(([name, t]) => ({ r, name, x: t[measure] }))).filter((b) => known(b.x)) : [];
  const [x0, x1] = domainOf([...points.map((p) => p.x), ...held.map((b) => b.x)]);
  const [y0, y1] = domainOf(points.map((p) => p.y));
  const frame = axes(width, height, { low: x0, high: x1, label: labelOf(measure) }, { low: y0, high: y1, label: "test score" });
  held.forEach((b, i) => {
    frame.parts.push(`<line class="reference" x1="${frame.px(b.x)}" x2="${frame.px(b.x)}" y1="${frame.inner.top}" y2="${frame.inner.bottom}"/>`);
    const anchor = frame.px(b.x) > width - 90 ? "end" : "start";
    frame.parts.push(`<text class="soft" text-anchor="${anchor}" x="${frame.px(b.x) + (anchor === "end" ? -4 : 4)}" y="${frame.inner.top + 12 + 14 * (i % 4)}">${safe(b.name)}</text>`);
  });
  runs.forEach((_, r) => frame.parts.push(trend(points.filter((p) => p.r === r), frame, r)));
  points.forEach((p, i) => frame.parts.push(point(p, frame, measure, i === 0)));
  host.innerHTML = `<svg viewBox="0 0 ${width} ${height}" role="group" aria-label="${safe(`${points.length} networks: test score against ${labelOf(measure)}, ${split}`)}">${frame.parts.join("")}</svg>`;
  legend(byId("scatter-legend"), runEntries((run) => run.score));
  byId("scatter-caption").textContent = scatterCaption(measure, split, points);
  markChosen();
}

function point(p, frame, measure, first) {
  const said = `${runs.length > 1 ? `${runs[p.r].label}, ` : ""}seed ${p.seed}: score ${format(p.y)}, ${labelOf(measure)} ${format(p.x)}`;
  const shape = SHAPES[p.r % SHAPES.length](5);
  return `<g class="point ${runClass(p.r)}" data-run="${p.r}" data-member="${p.m}" role="button" tabindex="${first ? 0 : -1}" `
    + `aria-label="${safe(said)}. Opens in the viewer." transform="translate(${frame.px(p.x).toFixed(1)},${frame.py(p.y).toFixed(1)})">`
    + `<title>${safe(said)}</title><circle class="hit" r="11"/>${shape}</g>`;
}

// The least-squares line, over the range of the points.
function trend(points, frame, r) {
  if (points.length < 3) return "";
  const mean = (of) => points.reduce((sum, p) => sum + of(p), 0) / points.length;
  const [mx, my] = [mean((p) => p.x), mean((p) => p.y)];
  const spread = mean((p) => (p.x - mx) ** 2);
  if (spread === 0) return "";
  const slope = mean((p) => (p.x - mx) * (p.y - my)) / spread;
  const at = (x) => Math.min(Math.max(frame.py(my + slope * (x - mx)), frame.inner.top), frame.inner.bottom);
  const [a, b] = [points[0].x, points[points.length - 1].x];
  return `<line class="trend ${runClass(r)}" x1="${frame.px(a)}" y1="${at(a)}" x2="${frame.px(b)}" y2="${at(b)}"/>`;
}

function scatterCaption(measure, split, points) {
  const said = runs.map((run, r) => {
    const [pearson, p, n] = ((run.correlations || {})[split] || {})[measure] || [];
    const name = runs.length > 1 ? `${run.label}: ` : "";
    return points.some((q) => q.r === r) ? `${name}Pearson r ${format(pearson)}${known(p) ? `, p ${format(p)}` : ""}, n ${n === undefined ? points.length : n}` : null;
  }).filter(Boolean);
  return `${said.join("; ")}. The score is of the test split; ${labelOf(measure)} of ${split}.`;
}

// Of points that cover each other, the one whose middle is nearest to where was clicked.
function nearestPoint(event) {
  const under = event.target.closest(".point");
  if (!under || event.detail === 0) return under;
  const away = (p) => {
    const box = p.querySelector(".dot").getBoundingClientRect();
    return Math.hypot(event.clientX - (box.left + box.right) / 2, event.clientY - (box.top + box.bottom) / 2);
  };
  return [...byId("scatter-plot").querySelectorAll(".point")].reduce((a, b) => (away(b) < away(a) ? b : a), under);
}

function openPoint(target) {
  if (target && typeof viewer !== "undefined") viewer.open(+target.dataset.run, +target.dataset.member, true);
}

function walkPoints(event) {
  const points = [...byId("scatter-plot").querySelectorAll(".point")];
  const at = points.indexOf(event.target.closest(".point"));
  const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: points.length - 1 }[event.key];
  if (event.key === "Enter" || event.key === " ") openPoint(points[at]);
  else if (to === undefined) return;
  else if (points[to]) {
    points.forEach((p) => p.setAttribute("tabindex", "-1"));
    points[to].setAttribute("tabindex", "0");
    points[to].focus();
  }
  event.preventDefault();
}

// Show in the scatter which network the viewer has open.
function markChosen() {
  const host = byId("scatter-plot");
  if (!host) return;
  for (const p of host.querySelectorAll(".point")) {
    p.classList.toggle("chosen", +p.dataset.run === viewer.run && +p.dataset.member === viewer.member);
  }
}

// Weights on pairs of nodes, such as attention: as a drawing of the graph and as a matrix. `weight(i, j)` is how much node i looks at node j.
const FAINT = 0.03; // weights below this are not drawn as arrows
const SIZE = 340;

function nodePlaces(n) {
  const ring = SIZE / 2 - 48;
  return Array.from({ length: n }, (_, i) => {
    const angle = Math.PI / 2 - (2 * Math.PI * i) / n;
    return { x: SIZE / 2 + ring * Math.cos(angle), y: SIZE / 2 - ring * Math.sin(angle), ux: Math.cos(angle), uy: -Math.sin(angle) };
  });
}

function graphDrawing(frame, panel) {
  const { n, joined, node } = frame;
  const places = nodePlaces(n);
  const radius = Math.min(14, (2 * (SIZE / 2 - 48) * Math.sin(Math.PI / Math.max(n, 2))) * 0.38);
  const parts = [];
  for (let i = 0; i < n; i++) for (let j = 0; j < i; j++) {
    if (joined(i, j)) parts.push(`<line class="edge" x1="${places[i].x}" y1="${places[i].y}" x2="${places[j].x}" y2="${places[j].y}"/>`);
  }
  for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) {
    const w = panel.weight(i, j);
    if (Math.abs(w) >= FAINT && (node === null || node === i)) parts.push(flow(places, i, j, w, radius, panel));
  }
  places.forEach((p, i) => parts.push(nodeMark(frame, panel, p, i, radius)));
  return `<svg class="graph" viewBox="0 0 ${SIZE} ${SIZE}" role="img" aria-label="${safe(panel.said)}">${parts.join("")}</svg>`;
}

function flow(places, i, j, w, radius, panel) {
  const size = Math.abs(w);
  const cls = panel.signed ? (w > 0 ? "more" : "less") : "";
  const style = `stroke-width="${(0.7 + 3.3 * size).toFixed(2)}" stroke-opacity="${(0.18 + 0.82 * size).toFixed(2)}"`;
  const title = `<title>${safe(panel.tell(i, j))}</title>`;
  const to = places[i];
  if (i === j) {
    const [x, y] = [to.x + to.ux * (radius + 7), to.y + to.uy * (radius + 7)];
    return `<circle class="flow ${cls}" cx="${x}" cy="${y}" r="8" ${style}>${title}</circle>`;
  }
  const from = places[j];
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = Math.hypot(dx, dy);
  // Bent to one side, so that two opposite arrows do not lie on each other.
  const [cx, cy] = [(from.x + to.x) / 2 - dy * 0.11, (from.y + to.y) / 2 + dx * 0.11];
  const away = (p, q, d) => { const l = Math.hypot(q.x - p.x, q.y - p.y) || 1; return { x: p.x + ((q.x - p.x) / l) * d, y: p.y + ((q.y - p.y) / l) * d }; };
  const tip = away(to, { x: cx, y: cy }, radius + 1.5);
  const wide = 2.5 + 3 * size;
  const base = away(tip, { x: cx, y: cy }, Math.min(wide * 1.9, length / 3));
  const start = away(from, { x: cx, y: cy }, radius);
  const [px, py] = [(-(base.y - tip.y) / Math.hypot(base.x - tip.x, base.y - tip.y)) * wide, ((base.x - tip.x) / Math.hypot(base.x - tip.x, base.y - tip.y)) * wide];
  const at = (x) => x.toFixed(1);
  return `<path class="flow ${cls}" d="M${at(start.x)},${at(start.y)}Q${at(cx)},${at(cy)} ${at(base.x)},${at(base.y)}" ${style}>${title}</path>`
    + `<path class="head ${cls}" fill-opacity="${(0.18 + 0.82 * size).toFixed(2)}" d="M${at(tip.x)},${at(tip.y)}L${at(base.x + px)},${at(base.y + py)}L${at(base.x - px)},${at(base.y - py)}Z"/>`;
}

function nodeMark(frame, panel, p, i, radius) {
  const state = panel.state ? panel.state(i) : 0;
  const cls = ["node", state === 1 ? "set" : state >= 2 ? "second" : "", frame.decisive(i) ? "decisive" : ""].join(" ");
  const marked = frame.marks.filter((m) => m.node === i);
  const rings = (panel.wrong && panel.wrong(i) ? `<circle class="wrong" cx="${p.x}" cy="${p.y}" r="${radius + 3.5}"/>` : "")
    + (marked.length ? `<circle class="mark" cx="${p.x}" cy="${p.y}" r="${radius - 3}"/>` : "");
  const names = marked.length ? ` (${marked.map((m) => m.name).join(", ")})` : "";
  const size = radius > 11 ? 12 : Math.max(6, radius);
  return `<g class="${cls}" data-node="${i}"><title>node ${i}${safe(names)}${frame.decisive(i) ? ", decisive" : ""}</title>`
    + `<circle class="body" cx="${p.x}" cy="${p.y}" r="${radius}"/>${rings}<text x="${p.x}" y="${p.y}" style="font-size:${size}px">${i}</text></g>`;
}

function matrixDrawing(frame, panel) {
  const { n, joined, node } = frame;
  const left = 30;
  const cell = (SIZE - left - 6) / n;
  const every = n > 24 ? Math.ceil(n / 16) : 1;
  const parts = [`<text class="soft" x="${left / 2}" y="${left - 9}" style="font-size:10px">i \\ j</text>`];
  for (let i = 0; i < n; i++) {
    const y = left + i * cell;
    const shown = i % every === 0;
    if (shown) parts.push(`<text x="${y + cell / 2}" y="${left - 9}" style="font-size:${Math.min(11, cell * 0.8 + 2)}px">${i}</text>`);
    if (shown || frame.decisive(i)) parts.push(`<text class="row-label" data-node="${i}" x="${left / 2}" y="${y + cell / 2}" style="font-size:${Math.min(11, cell * 0.8 + 2)}px">${frame.decisive(i) ? "◆" : ""}${i}</text>`);
    for (let j = 0; j < n; j++) {
      const [x, w] = [left + j * cell, panel.weight(i, j)];
      if (joined(i, j) || i === j) parts.push(`<rect class="open" x="${x + 0.5}" y="${y + 0.5}" width="${cell - 1}" height="${cell - 1}"/>`);
      if (Math.abs(w) > 0.004) {
        const cls = panel.signed ? (w > 0 ? "more" : "less") : "";
        parts.push(`<rect class="cell ${cls}" x="${x + 0.5}" y="${y + 0.5}" width="${cell - 1}" height="${cell - 1}" fill-opacity="${Math.abs(w).toFixed(3)}"><title>${safe(panel.tell(i, j))}</title></rect>`);
      }
    }
  }
  parts.push(`<rect class="frame" x="${left}" y="${left}" width="${n * cell}" height="${n * cell}"/>`);
  if (node !== null) parts.push(`<rect class="chosen-row" x="${left}" y="${left + node * cell}" width="${n * cell}" height="${cell}"/>`);
  return `<svg class="matrix" viewBox="0 0 ${SIZE} ${SIZE}" role="img" aria-label="${safe(panel.said)}">${parts.join("")}</svg>`;
}

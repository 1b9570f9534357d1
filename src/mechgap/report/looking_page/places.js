// One token: its attention to nodes as bars, to nodes and pairs on the graph, to pairs as a matrix.
const STRONGEST = 2; // arrows for each node
const MIXED = 65; // per cent of colour in the most attended node; its name stays readable

function nodeBars(looks) {
  const step = Math.min(26, SIZE / n);
  const [left, width, top] = [Math.min(120, 26 + 6.5 * Math.max(...data.notes.map((note) => note.length))), SIZE - 44, Math.max(...looks) || 1];
  const rows = ids.map((i) => {
    const y = i * step;
    const style = `style="font-size:${Math.min(12, step * 0.75)}px"`;
    return `<g class="${i === most(looks) ? "most" : ""}"><title>node ${safe(nodeName(i))}: ${shown(looks[i])}</title><text x="0" y="${y + step / 2}" ${style}>${i} <tspan class="soft">${safe(data.notes[i])}</tspan></text>`
      + `<rect class="back" x="${left}" y="${y + step * 0.12}" width="${width - left}" height="${step * 0.76}"/><rect class="bar" x="${left}" y="${y + step * 0.12}" width="${((width - left) * looks[i]) / top}" height="${step * 0.76}"/>`
      + `<text class="number" x="${SIZE}" y="${y + step / 2}" ${style}>${shown(looks[i])}</text></g>`;
  });
  const words = `Attention to nodes: ${ids.map((i) => `node ${nodeName(i)} ${shown(looks[i])}`).join(", ")}`;
  return `<svg class="bars" viewBox="0 0 ${SIZE} ${n * step}" role="img" aria-label="${safe(words)}">${rows.join("")}</svg>`;
}

function showPlaces() {
  const [looks, pairs] = [looksAt("nodes", view.token), looksAt("edges", view.token)];
  const top = Math.max(...pairs) || 1;
  const strong = new Set(range(n * n).sort((a, b) => pairs[b] - pairs[a]).slice(0, STRONGEST * n));
  const edge = (i, j) => data.adjacency.length > 0 && data.adjacency[i][j] === "1";
  const tell = (i, j) => `pair (${i}, ${j})${edge(i, j) ? ", an edge" : ""}: ${shown(pairs[i * n + j])}`;
  const best = most(pairs);
  const said = `Attention to pairs of nodes, most to ${tell(Math.floor(best / n), best % n)}`;
  const frame = { n, node: null, decisive: () => false, marks: ids.filter((i) => data.notes[i] === "s").map((node) => ({ name: "s", node })) };
  // An arrow leads from i to j, and `graphDrawing` draws them from its second node to its first.
  const arrow = (j, i) => (strong.has(i * n + j) ? pairs[i * n + j] / top : 0);
  byId("nodes").innerHTML = nodeBars(looks);
  byId("graph").innerHTML = graphDrawing({ ...frame, joined: (i, j) => edge(i, j) || edge(j, i) }, { weight: arrow, tell: (j, i) => tell(i, j), said });
  byId("edges").innerHTML = matrixDrawing({ ...frame, joined: edge }, { weight: (i, j) => pairs[i * n + j] / top, tell, said });
  const brightest = Math.max(...looks) || 1;
  byId("graph").querySelectorAll(".node").forEach((node, i) => {
    node.querySelector(".body").style.fill = `color-mix(in srgb, var(--series) ${((MIXED * looks[i]) / brightest).toFixed(0)}%, var(--node))`;
    node.querySelector("title").textContent = `node ${nodeName(i)}: ${shown(looks[i])}`;
  });
  byId("edges-note").textContent = `Row i, column j. Strongest: ${tell(Math.floor(best / n), best % n)}; even attention is ${shown(1 / (n * n))}.${data.adjacency.length ? " Tinted: edges of the graph." : ""}${data.kept.edges === "every head" ? "" : ` Kept: ${data.kept.edges}.`}`;
}

// Where every head looks, as a matrix: a row per position that looks, a column per position that is looked at.
const SIZE = 240;
const EDGE = 22; // for the labels
const MOST_LABELS = 9;
const CELL = (SIZE - EDGE - 2) / length;
const headRows = rows.map((_, r) => r).filter(isHead);
const looksAt = (head, position) => data.places[data.matrices[data.attention[view.layer - 1][head]][position]];

function startAttention() {
  const every = [1, 2, 5, 10, 20, 50].find((step) => length / step <= MOST_LABELS) ?? 100;
  const labels = positions.filter((i) => i % every === 0).map((i) => {
    const middle = EDGE + (i + 0.5) * CELL;
    return `<text class="soft" x="${middle}" y="${EDGE / 2}">${i}</text><text class="soft" x="${EDGE / 2}" y="${middle}">${i}</text>`;
  });
  const side = CELL * length;
  byId("attention").innerHTML = headRows.map((row, head) => `<figure><figcaption><strong>${safe(rows[row].name)}</strong><code>${safe(data.heads[head])}</code></figcaption>`
    + `<svg class="matrix" role="img" viewBox="0 0 ${SIZE} ${SIZE}">${labels.join("")}`
    + `<rect class="back" x="${EDGE}" y="${EDGE}" width="${side}" height="${side}"/><path class="cell"/>`
    + `<rect class="frame" x="${EDGE}" y="${EDGE}" width="${side}" height="${side}"/><rect class="chosen-row" x="${EDGE}" width="${side}" height="${CELL}"/></svg><p></p></figure>`).join("");
  if (!last || !headRows.length) byId("attention").innerHTML = `<p class="note">${last ? "This program has no heads." : "No layer was run."}</p>`;
  byId("attention").addEventListener("click", (event) => {
    const svg = event.target.closest("svg");
    if (!svg) return;
    const box = svg.getBoundingClientRect();
    const row = Math.floor((((event.clientY - box.top) / box.height) * SIZE - EDGE) / CELL);
    if (row >= 0 && row < length) choose(row === view.position ? null : row, null);
  });
}

function showAttention() {
  byId("attention").querySelectorAll("figure").forEach((figure, head) => {
    const looks = positions.map((i) => looksAt(head, i));
    figure.querySelector(".cell").setAttribute("d", looks.flatMap(bars).join(""));
    const chosen = figure.querySelector(".chosen-row");
    chosen.setAttribute("visibility", view.position === null ? "hidden" : "visible");
    if (view.position !== null) chosen.setAttribute("y", EDGE + view.position * CELL);
    const words = lookInWords(head, looks);
    figure.querySelector("p").textContent = words;
    figure.querySelector("svg").setAttribute("aria-label", `Attention of ${rows[headRows[head]].name} in layer ${view.layer}: ${words}`);
  });
}

// One bar for every run of neighbours that position i looks at.
function bars(places, i) {
  const gap = Math.min(0.5, CELL / 10);
  const found = [];
  for (let k = 0; k < places.length; k++) {
    const from = k;
    while (places[k + 1] === places[k] + 1) k++;
    const [x, y] = [EDGE + places[from] * CELL + gap, EDGE + i * CELL + gap];
    found.push(`M${x.toFixed(2)},${y.toFixed(2)}h${((k - from + 1) * CELL - 2 * gap).toFixed(2)}v${(CELL - 2 * gap).toFixed(2)}H${x.toFixed(2)}z`);
  }
  return found;
}

function lookInWords(head, looks) {
  const read = (i) => rows[headRows[head]].texts[outputs[view.layer][head][i]];
  const at = (places) => (places.length ? `looks at ${ranges(places)}` : "finds nothing");
  if (view.position !== null) return `position ${view.position} ${at(looks[view.position])}, reads ${read(view.position)}`;
  const defined = positions.filter((i) => outputs[view.layer][head][i] !== UNDEFINED);
  return defined.length ? `reads something at ${ranges(defined)}` : "reads nothing anywhere";
}

// Heat maps: distances between networks, and losses on planes. Each has a cursor for mouse, touch and keys.
const STOPS = ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"]
  .map((hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)));
const GREY = [128, 128, 128];
const BANDS = 12; // between contours
const ENLARGED = 320; // pixels along a side of a landscape

function colourOf(share) {
  if (!known(share)) return GREY;
  const at = Math.min(Math.max(share, 0), 1) * (STOPS.length - 1);
  const low = Math.min(Math.floor(at), STOPS.length - 2);
  return STOPS[low].map((c, k) => Math.round(c + (STOPS[low + 1][k] - c) * (at - low)));
}

function colourBar(low, high) {
  const stops = STOPS.map((c, i) => `rgb(${c.join(",")}) ${(100 * i) / (STOPS.length - 1)}%`).join(",");
  return `<div class="bar" style="background:linear-gradient(to right,${stops})"></div><div class="bar-ends"><span>${safe(low)}</span><span>${safe(high)}</span></div>`;
}

// `pixels` is the side of the picture, `share(x, y)` a value in [0, 1] for each; the cursor moves over `cells` a side.
function heatMap(host, { pixels, share, cells, name, tell, open, dark }) {
  host.innerHTML = `<div class="heat${dark ? " smooth" : ""}"><canvas width="${pixels}" height="${pixels}" tabindex="0" role="img" aria-label="${safe(name)}"></canvas><div class="cursor"></div></div><output class="readout" aria-live="polite">&nbsp;</output>`;
  const canvas = host.querySelector("canvas");
  const context = canvas.getContext("2d");
  const image = context.createImageData(pixels, pixels);
  for (let y = 0; y < pixels; y++) for (let x = 0; x < pixels; x++) {
    const faded = dark && dark(x, y) ? 0.62 : 1;
    const [red, green, blue] = colourOf(share(x, y));
    image.data.set([red * faded, green * faded, blue * faded, 255], 4 * (y * pixels + x));
  }
  context.putImageData(image, 0, 0);
  const at = { row: Math.floor(cells / 2), column: Math.floor(cells / 2) };
  const show = () => {
    const size = canvas.clientWidth / cells;
    const cursor = host.querySelector(".cursor");
    Object.assign(cursor.style, { left: `${at.column * size}px`, top: `${at.row * size}px`, width: `${Math.max(size, 5)}px`, height: `${Math.max(size, 5)}px` });
    host.querySelector(".readout").textContent = tell(at.row, at.column);
  };
  const follow = (event) => {
    const box = canvas.getBoundingClientRect();
    const cell = (x, from, size) => Math.min(cells - 1, Math.max(0, Math.floor(((x - from) / size) * cells)));
    Object.assign(at, { row: cell(event.clientY, box.top, box.height), column: cell(event.clientX, box.left, box.width) });
    show();
  };
  canvas.addEventListener("pointermove", follow);
  canvas.addEventListener("pointerdown", follow);
  canvas.addEventListener("focus", show);
  if (open) canvas.addEventListener("click", (event) => { follow(event); open(at.row, at.column); });
  canvas.addEventListener("keydown", (event) => {
    const [dr, dc] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] || [0, 0];
    if (event.key === "Enter" && open) open(at.row, at.column);
    else if (!dr && !dc) return;
    Object.assign(at, { row: Math.min(cells - 1, Math.max(0, at.row + dr)), column: Math.min(cells - 1, Math.max(0, at.column + dc)) });
    event.preventDefault();
    show();
  });
}

// Figure 5: the tree above the matrix of distances, in the same order.
async function startClusters() {
  const host = byId("clusters-figures");
  for (const [index, run] of runs.entries()) {
    if (!run.clusters) continue;
    const found = run.clusters;
    const count = found.members.length;
    const { values } = await unpack(found.distances);
    const figure = document.createElement("figure");
    const words = `${run.label}: ${found.cut} clusters, ${found.stable} of them stable; two networks are ${format(found.mean)} apart on average`;
    figure.innerHTML = `<h3>${safe(run.label)}</h3>${dendrogram(found, words)}<div class="map"></div>${colourBar("0", `${format(found.top, 2)} (distance)`)}<figcaption>${safe(words)}.</figcaption>`;
    host.append(figure);
    const seed = (k) => run.seeds[found.members[k]];
    heatMap(figure.querySelector(".map"), {
      pixels: count,
      cells: count,
      share: (x, y) => values[y * count + x] / 255,
      name: `Distances between ${count} networks. Arrow keys move, Enter opens the network of the row.`,
      tell: (i, j) => `seed ${seed(i)} and seed ${seed(j)}: ${format((values[i * count + j] / 255) * found.top, 3)}; clusters ${found.labels[i]} and ${found.labels[j]}`,
      open: (i) => viewer.open(index, found.members[i], true),
    });
  }
}

function dendrogram(found, words) {
  const count = found.members.length;
  const [width, height, strip] = [600, 120, 8];
  const top = Math.max(...found.y.flat()) || 1;
  const px = (x) => (((x + 0.5) / count) * width).toFixed(1);
  const py = (y) => (height - (y / top) * (height - 6)).toFixed(1);
  const links = found.x.map((xs, k) => `M${xs.map((x, i) => `${px(x)},${py(found.y[k][i])}`).join("L")}`).join("");
  const colours = found.labels.map((label, i) => `<rect class="${label % 2 ? "odd" : "even"}" x="${(i / count) * width}" y="${height}" width="${width / count + 0.3}" height="${strip}"/>`);
  return `<svg viewBox="0 0 ${width} ${height + strip}" role="img" aria-label="${safe(`Dendrogram. ${words}`)}"><path class="tree" d="${links}"/>`
    + `<line class="cut" x1="0" x2="${width}" y1="${py(found.height * top)}" y2="${py(found.height * top)}"/>${colours.join("")}</svg>`;
}

function startLandscapes() {
  const host = byId("landscapes-figures");
  const order = (entry) => ["learned", "compiled", "initial"].indexOf(entry.name) + 1 || 9;
  const scales = [...new Set(runs.flatMap((run) => run.landscapes.map((e) => e.scale)))];
  const draw = () => {
    host.textContent = "";
    for (const scale of scales) {
      const rows = runs.map((run) => ({ run, entries: run.landscapes.filter((e) => e.scale === scale).sort((a, b) => order(a) - order(b)) }));
      drawScale(host, scale, rows.filter((row) => row.entries.length));
    }
  };
  byId("landscapes-shared").addEventListener("change", draw);
  drawn(draw);
}

// All planes of one width: a row per run, its networks beside each other, then all of them along one direction.
function drawScale(host, scale, rows) {
  const all = rows.flatMap((row) => row.entries);
  const half = Math.max(...all.flatMap((e) => e.axis.map(Math.abs)));
  const shared = byId("landscapes-shared").checked ? logRange(all) : null;
  host.insertAdjacentHTML("beforeend", `<h3>${safe(scale)} <small>up to ${half} × the norm of the weights away</small></h3>`);
  for (const { run, entries } of rows) {
    const grid = host.appendChild(document.createElement("div"));
    grid.className = "small-multiples";
    const prefix = runs.length > 1 ? `${run.label}, ` : "";
    for (const entry of entries) drawPlane(grid.appendChild(document.createElement("figure")), entry, prefix + entry.name, shared || logRange([entry]));
    const profile = grid.appendChild(document.createElement("figure"));
    profile.className = "profile";
    const series = entries.map((e) => ({ name: e.name, cls: `of-${safe(e.name)}`, x: e.axis, mean: e.loss.map((row) => row[Math.floor(row.length / 2)]) }));
    linePanel(profile, { title: `${prefix}along the first direction`, x: { label: "distance" }, y: { log: true, label: "loss" }, series });
    const key = profile.appendChild(document.createElement("div"));
    key.className = "legend";
    legend(key, series);
  }
}

const SMALLEST_LOSS = 1e-4;

function logRange(entries) {
  const positive = entries.flatMap((e) => e.loss.flat()).filter((x) => known(x) && x > 0);
  if (!positive.length) return [0, 1];
  const high = Math.log10(Math.max(...positive));
  // What is smaller than SMALLEST_LOSS is as good as 0: a compiled network is, and would take all colours otherwise.
  return [Math.min(Math.max(Math.log10(Math.min(...positive)), Math.log10(SMALLEST_LOSS)), high), high];
}

function drawPlane(figure, entry, name, [low, high]) {
  const middle = Math.floor(entry.axis.length / 2);
  figure.innerHTML = `<figcaption>${safe(name)}</figcaption><div class="map"></div>${colourBar(format(10 ** low, 2), `${format(10 ** high, 2)} (loss)`)}`;
  const share = (loss) => (known(loss) ? (Math.log10(Math.max(loss, 10 ** low)) - low) / (high - low || 1) : NaN);
  const shares = enlarged(entry.loss.map((row) => row.map(share)));
  const band = (x, y) => Math.floor(shares[y * ENLARGED + x] * BANDS);
  heatMap(figure.querySelector(".map"), {
    pixels: ENLARGED,
    cells: entry.axis.length,
    share: (x, y) => shares[y * ENLARGED + x],
    dark: (x, y) => x > 0 && y > 0 && (band(x, y) !== band(x - 1, y) || band(x, y) !== band(x, y - 1)),
    name: `Loss around the ${entry.name} network, ${entry.scale}: ${format(entry.loss[middle][middle])} in the middle. Arrow keys read values.`,
    tell: (i, j) => `at ${format(entry.axis[i], 2)}, ${format(entry.axis[j], 2)}: loss ${format(entry.loss[i][j])}`,
  });
}

// Values between the points of a grid; NaN beside points where nothing is known.
function enlarged(grid) {
  const last = grid.length - 1;
  const found = new Float32Array(ENLARGED * ENLARGED);
  const places = Array.from({ length: ENLARGED }, (_, k) => {
    const at = (k / (ENLARGED - 1)) * last;
    const low = Math.min(Math.floor(at), last - 1);
    return [low, at - low];
  });
  places.forEach(([i, a], y) => places.forEach(([j, b], x) => {
    const above = grid[i][j] * (1 - b) + grid[i][j + 1] * b;
    const below = grid[i + 1][j] * (1 - b) + grid[i + 1][j + 1] * b;
    found[y * ENLARGED + x] = above * (1 - a) + below * a;
  }));
  return found;
}

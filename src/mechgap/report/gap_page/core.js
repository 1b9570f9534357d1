// What every part of the report uses: small helpers.
const runs = data.runs;
const SPLITS = ["validation", "test", "train"];
const COLOURS = 6; // of runs, see page.css

const labelOf = (measure) => data.labels[measure] || measure;
const measureNames = Object.keys(data.labels);
const inOrder = (measure) => measureNames.indexOf(measure);
const known = (x) => x !== null && x !== undefined && Number.isFinite(x);
const runClass = (index) => `run${index % COLOURS}`;

function format(x, digits = 3) {
  if (!known(x)) return "–";
  if (x !== 0 && (Math.abs(x) < 10 ** -digits || Math.abs(x) >= 1e5)) return x.toExponential(1);
  const shown = x.toFixed(digits);
  const rounded = Math.abs(+shown) === 1 && 1 - Math.abs(x) > 1e-6; // 0.9997 is not 1.000, but 0.9999999 is rounding
  return rounded ? format(x, digits + 1) : shown;
}

function splitsOf(what) {
  const found = new Set(runs.flatMap((run) => Object.keys(run[what] || {})));
  return [...SPLITS.filter((s) => found.has(s)), ...[...found].filter((s) => !SPLITS.includes(s))];
}

// What draws itself to the width that it has, and again when that changes.
const redraws = [];
function drawn(draw) {
  redraws.push(draw);
  draw();
}

function watchWidth() {
  let width = byId("content").clientWidth;
  let timer = 0;
  new ResizeObserver(() => {
    if (byId("content").clientWidth === width) return;
    width = byId("content").clientWidth;
    clearTimeout(timer);
    timer = setTimeout(() => redraws.forEach((draw) => draw()), 80);
  }).observe(byId("content"));
}

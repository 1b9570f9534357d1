// The attention viewer: which network, sample and step are shown, and how they are changed.
const CLOSE = 0.1; // a predicted number matches within this, see external faithfulness
const viewer = { run: 0, member: 0, sample: 0, step: 1, head: 0, select: 0, node: null, arrays: null };

viewer.about = () => runs[viewer.run].viewer;
viewer.last = () => Math.max(1, viewer.about().lengths[viewer.sample] - 1);

async function startViewer() {
  viewer.run = Math.max(0, runs.findIndex((run) => run.viewer));
  fill(byId("viewer-run"), runs.map((run, i) => [i, run.label]).filter(([i]) => runs[i].viewer), viewer.run);
  byId("viewer-run-label").hidden = runs.filter((run) => run.viewer).length < 2;
  const narrow = window.innerWidth < 700;
  setView(narrow ? "graph" : "both");
  document.querySelector(`input[name=viewer-view][value=${narrow ? "graph" : "both"}]`).checked = true;
  const on = (id, event, act) => byId(id).addEventListener(event, act);
  on("viewer-run", "change", (e) => viewer.open(+e.target.value, (runs[+e.target.value].viewer.closest || { member: 0 }).member));
  on("viewer-member", "change", (e) => viewer.open(viewer.run, +e.target.value.split(":").pop()));
  on("viewer-sample", "change", (e) => { viewer.sample = +e.target.value; viewer.step = busiestStep(); bestHead(); showStep(); });
  on("viewer-head", "change", (e) => { viewer.head = +e.target.value; showStep(); });
  on("viewer-select", "change", (e) => { viewer.select = +e.target.value; bestHead(); showStep(); });
  on("viewer-node", "change", (e) => chooseNode(e.target.value === "" ? null : +e.target.value));
  on("viewer-step", "input", (e) => toStep(+e.target.value));
  on("viewer-previous", "click", () => toStep(viewer.step - 1));
  on("viewer-next", "click", () => toStep(viewer.step + 1));
  viewer.player = player(byId("viewer-play"), {
    rewind: () => { if (viewer.step >= viewer.last()) toStep(1); },
    advance: () => { toStep(viewer.step + 1); return viewer.step < viewer.last(); },
  });
  on("viewer", "keydown", viewerKey);
  on("viewer-stage", "click", (e) => {
    const at = e.target.closest("[data-node]");
    if (at) chooseNode(viewer.node === +at.dataset.node ? null : +at.dataset.node);
  });
  for (const radio of document.querySelectorAll("input[name=viewer-view]")) radio.addEventListener("change", () => setView(radio.value));
  await viewer.open(viewer.run, (viewer.about().closest || { member: 0 }).member);
}

// Show a network; from a click elsewhere on the page, also go there.
viewer.open = async (run, member, go = false) => {
  if (!runs[run].viewer) return;
  const changed = run !== viewer.run || !viewer.arrays;
  viewer.player.stop();
  viewer.run = run;
  viewer.member = member;
  if (changed) {
    viewer.arrays = await unpackRun(runs[run].viewer);
    const { lengths } = runs[run].viewer;
    const longest = lengths.indexOf(Math.max(...lengths)); // there is most to see
    Object.assign(viewer, { sample: longest, head: 0, select: 0, node: null });
    viewer.step = busiestStep();
  }
  fillChoices();
  bestHead();
  viewer.step = Math.min(viewer.step, viewer.last());
  showStep();
  markChosen();
  if (go) {
    byId("viewer").scrollIntoView();
    byId("viewer-stage").focus({ preventScroll: true });
  }
};

async function unpackRun(about) {
  const [attention, adjacency, star, decisive] = await Promise.all(
    [about.attention, about.adjacency, about.star, about.decisive].map((entry) => (entry ? unpack(entry) : null)),
  );
  const hints = {};
  for (const [name, hint] of Object.entries(about.hints)) {
    hints[name] = { predicted: await unpack(hint.predicted), truth: await unpack(hint.truth) };
  }
  return { attention, adjacency, star, decisive, hints };
}

function fillChoices() {
  const run = runs[viewer.run];
  const about = run.viewer;
  byId("viewer-run").value = viewer.run;
  const [, , samples, heads, n] = about.attention.shape;
  const all = run.seeds.map((seed, m) => [`all:${m}`, `seed ${seed}${run.sound[m] ? "" : " (diverged)"}`]);
  const notable = [];
  if (about.closest) notable.push([`closest:${about.closest.member}`, `${about.closest.measure === "internal/rows" ? "closest match" : "truest traces"}: seed ${run.seeds[about.closest.member]}`]);
  const extreme = (values, sign) => values.map((v, m) => [known(v) && run.sound[m] ? sign * v : -Infinity, m]).sort((a, b) => b[0] - a[0])[0][1];
  const inner = (run.measures.validation || {})["internal/rows"];
  if (inner) { const m = extreme(inner, 1); notable.push([`far:${m}`, `furthest: seed ${run.seeds[m]}`]); }
  if (run.score) for (const [sign, word] of [[1, "best"], [-1, "worst"]]) { const m = extreme(run.score, sign); notable.push([`${word}:${m}`, `${word} score: seed ${run.seeds[m]}`]); }
  const here = notable.find(([value]) => value.startsWith("closest") && value.endsWith(`:${viewer.member}`));
  fill(byId("viewer-member"), [{ label: "notable", options: notable }, { label: "all", options: all }], here ? here[0] : `all:${viewer.member}`);
  fill(byId("viewer-sample"), Array.from({ length: samples }, (_, i) => [i, `${i + 1} of ${samples}`]), viewer.sample);
  fill(byId("viewer-head"), Array.from({ length: heads }, (_, i) => [i, String(i)]), viewer.head);
  byId("viewer-head-label").hidden = heads < 2;
  const selects = about.star ? about.star.shape[2] : 1;
  fill(byId("viewer-select"), Array.from({ length: selects }, (_, i) => [i, `select ${i}`]), viewer.select);
  byId("viewer-select-label").hidden = selects < 2;
  fill(byId("viewer-node"), [["", "all"], ...Array.from({ length: n }, (_, i) => [i, String(i)])], viewer.node === null ? "" : viewer.node);
  const facts = [["internal/rows", "attention distance"], ["internal/decisive", "on decisive rows"], ["external/meant", "trace agreement"]]
    .map(([name, words]) => [((run.measures.validation || {})[name] || [])[viewer.member], words]).filter(([x]) => known(x))
    .map(([x, words]) => `${words} ${format(x)}`);
  const score = run.score && known(run.score[viewer.member]) ? [`test score ${format(run.score[viewer.member])}`] : [];
  byId("viewer-facts").textContent = `Seed ${run.seeds[viewer.member]}: ${[...score, ...facts].join(" · ")}`;
}

// Numbers of one step, as functions of nodes.
function attentionAt(t) {
  const { values, shape: [, steps, samples, heads, n] } = viewer.arrays.attention;
  const from = (((viewer.member * steps + t) * samples + viewer.sample) * heads + viewer.head) * n * n;
  return (i, j) => values[from + i * n + j] / 255;
}

function starAt(t) {
  if (!viewer.arrays.star) return null;
  const { values, shape: [, samples, selects, n] } = viewer.arrays.star;
  const from = ((t * samples + viewer.sample) * selects + viewer.select) * n * n;
  return (i, j) => values[from + i * n + j] / 255;
}

function decisiveAt(t) {
  if (!viewer.arrays.decisive) return () => false;
  const { values, shape: [, samples, selects, n] } = viewer.arrays.decisive;
  return (i) => Array.from({ length: selects }).some((_, s) => values[((t * samples + viewer.sample) * selects + s) * n + i] > 0);
}

// The step in which most rows are decisive, the first of them: there is something to compare, and an idle step has nothing.
function busiestStep() {
  const n = viewer.about().attention.shape[4];
  const decisive = Array.from({ length: viewer.last() }, (_, t) => Array.from({ length: n }, (__, i) => +decisiveAt(t)(i)).reduce((a, b) => a + b, 0));
  return 1 + decisive.indexOf(Math.max(...decisive));
}

function rowDistance(a, b, i, n) {
  let sum = 0;
  for (let j = 0; j < n; j++) sum += Math.abs(a(i, j) - b(i, j));
  return sum / 2;
}

// The head that fits α* best on this sample, as the measure reads several heads.
function bestHead() {
  const [, , , heads, n] = viewer.about().attention.shape;
  if (heads < 2 || !viewer.arrays.star) return;
  const total = (head) => {
    viewer.head = head;
    let sum = 0;
    for (let t = 0; t < viewer.last(); t++) for (let i = 0; i < n; i++) sum += rowDistance(attentionAt(t), starAt(t), i, n);
    return sum;
  };
  const sums = Array.from({ length: heads }, (_, h) => total(h));
  viewer.head = sums.indexOf(Math.min(...sums));
  byId("viewer-head").value = viewer.head;
}

function hintsAt(t) {
  const n = viewer.about().attention.shape[4];
  return Object.entries(viewer.about().hints).map(([name, { kind, location }]) => {
    const { predicted, truth } = viewer.arrays.hints[name];
    const count = predicted.shape.slice(3).reduce((a, b) => a * b, 1);
    const [steps, samples] = [predicted.shape[1], predicted.shape[2]];
    const mine = ((viewer.member * steps + t) * samples + viewer.sample) * count;
    const theirs = ((t + 1) * samples + viewer.sample) * count; // step t makes frame t + 1
    const value = { predicted: (i) => predicted.values[mine + i], truth: (i) => truth.values[theirs + i] };
    const wrong = (i) => {
      const [a, b] = [value.predicted(i), value.truth(i)];
      if (kind === "mask") return (a > 127.5) !== (b > 127.5);
      return kind === "scalar" ? !(Math.abs(a - b) < CLOSE) : a !== b;
    };
    const text = (who, i) => {
      const x = value[who](i);
      if (kind === "mask") return who === "truth" ? (x > 127 ? "1" : "·") : x < 3 ? "·" : (x / 255).toFixed(x > 252 ? 0 : 2);
      if (kind === "scalar") return x.toFixed(2).replace(/^-(0\.0+)$/, "$1");
      return kind === "pointer" && count === n && x === i ? "·" : String(x);
    };
    let wrongCount = 0;
    for (let i = 0; i < count; i++) wrongCount += wrong(i);
    const on = (who, i) => (kind === "mask" ? +(value[who](i) > 127.5) : value[who](i));
    return { name, kind, location, count, wrong, wrongCount, text, on, perNode: location === "node" && count === n };
  });
}

function showStep() {
  const t = viewer.step - 1;
  const n = viewer.about().attention.shape[4];
  const [trained, star, hints] = [attentionAt(t), starAt(t), hintsAt(t)];
  const edges = viewer.arrays.adjacency.values;
  const joined = (i, j) => edges[(viewer.sample * n + i) * n + j] > 0 || edges[(viewer.sample * n + j) * n + i] > 0;
  const marks = Object.entries(viewer.about().marks).map(([name, nodes]) => ({ name, node: nodes[viewer.sample] }));
  const frame = { n, joined, decisive: decisiveAt(t), marks, hints, node: viewer.node };
  const fillHint = hints.find((h) => h.perNode && (h.kind === "mask" || h.kind === "categorical"));
  const state = (who) => (fillHint ? (i) => fillHint.on(who, i) : null);
  const wrong = (i) => hints.some((h) => h.perNode && h.wrong(i));
  const tell = (i, j) => `node ${i} looks at node ${j}: ${star ? `compiled ${star(i, j).toFixed(2)}, ` : ""}trained ${trained(i, j).toFixed(2)}`;
  const panels = [];
  if (star) panels.push({ cls: "of-compiled", title: "Compiled", weight: star, state: state("truth"), tell, said: describe("Compiled", star, n) });
  panels.push({ cls: "of-learned", title: `Trained, seed ${runs[viewer.run].seeds[viewer.member]}`, weight: trained, state: state("predicted"), wrong, tell, said: describe("Trained", trained, n) });
  if (star) panels.push({ cls: "of-difference", title: "Difference", signed: true, weight: (i, j) => trained(i, j) - star(i, j), tell, said: "Difference between trained and compiled attention" });
  byId("viewer-stage").innerHTML = panels
    .map((p) => `<div class="panel ${p.cls}"><h3>${safe(p.title)}</h3>${graphDrawing(frame, p)}${matrixDrawing(frame, p)}</div>`).join("");
  byId("viewer-hints").innerHTML = hintsTable(frame);
  byId("viewer-legend").textContent = viewerLegend(star, fillHint, marks);
  const slider = byId("viewer-step");
  Object.assign(slider, { max: viewer.last(), value: viewer.step });
  slider.setAttribute("aria-valuetext", `step ${viewer.step} of ${viewer.last()}`);
  byId("viewer-said").textContent = said(frame, trained, star);
}

function describe(who, weight, n) {
  const looks = Array.from({ length: n }, (_, i) => {
    let best = 0;
    for (let j = 1; j < n; j++) if (weight(i, j) > weight(i, best)) best = j;
    return `${i} at ${best} (${weight(i, best).toFixed(2)})`;
  });
  return `${who} attention at step ${viewer.step}; where each node looks most: ${looks.join(", ")}`;
}

function viewerLegend(star, fillHint, marks) {
  const parts = [];
  if (fillHint) parts.push(`Fill: ${fillHint.name}${fillHint.kind === "mask" ? " is set" : ", blue for the last class"}.`);
  if (marks.length) parts.push(`Inner ring: ${marks.map((m) => m.name).join(", ")}.`);
  parts.push("Dashed red ring: a hint of this node is wrong.");
  if (star) parts.push("Bold outline and ◆: a decisive row, where the algorithm moves information; in other rows α* is a convention. Difference: orange where the trained network looks more, teal where α* does.");
  parts.push("Tinted squares are edges of the graph. Choose a node to see its row only.");
  return parts.join(" ");
}

function said(frame, trained, star) {
  const parts = [`Step ${viewer.step} of ${viewer.last()}`];
  if (star) {
    const rows = Array.from({ length: frame.n }, (_, i) => rowDistance(trained, star, i, frame.n));
    const mean = (list) => list.reduce((a, b) => a + b, 0) / list.length;
    const moved = rows.filter((_, i) => frame.decisive(i));
    const onMoved = moved.length ? `on ${moved.length} decisive row${moved.length > 1 ? "s" : ""} ${mean(moved).toFixed(2)}` : "no decisive row";
    parts.push(`attention distance ${mean(rows).toFixed(2)}`, onMoved);
  }
  for (const h of frame.hints) parts.push(`${h.name}: ${h.wrongCount ? `${h.wrongCount} of ${h.count} wrong` : "right"}`);
  return parts.join(" · ");
}

function toStep(step) {
  viewer.step = Math.min(Math.max(step, 1), viewer.last());
  showStep();
}

function chooseNode(node) {
  viewer.node = node;
  byId("viewer-node").value = node === null ? "" : node;
  showStep();
}

function setView(view) {
  byId("viewer-stage").dataset.view = view;
}

// Keys for the whole viewer, but not where a control or a scrolling table has a use of its own for them.
function viewerKey(event) {
  const { target, key } = event;
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  if (target.matches("select, input[type=radio]") || target.closest("#viewer-hints")) return;
  const slides = target.matches("input[type=range]");
  const to = { ArrowRight: viewer.step + 1, ArrowLeft: viewer.step - 1, Home: 1, End: viewer.last() }[key];
  if (key === " " && !target.matches("button")) viewer.player.toggle();
  else if (to !== undefined && !slides) toStep(to);
  else return;
  event.preventDefault();
}

// What is shown, and how it is changed: by slider, buttons, keys and clicks.
function show() {
  const slider = byId("layer");
  slider.value = view.layer;
  const words = last ? `Layer ${view.layer} of ${last}, ${STATES[view.state]}` : "No layer was run: it had ended before the first";
  slider.setAttribute("aria-valuetext", words);
  document.querySelector(`input[name=state][value="${view.state}"]`).checked = true;
  byId("said").textContent = [words, changesInWords()].filter(Boolean).join(" · ");
  byId("position").value = view.position ?? "";
  byId("name").value = view.name ?? "";
  showStream();
  if (last) showAttention();
  showRules();
  for (const line of document.querySelectorAll("#parse tr[data-layer]")) line.classList.toggle("now", +line.dataset.layer === view.layer);
}

function go(layer, state) {
  Object.assign(view, { layer: Math.min(Math.max(layer, Math.min(1, last)), last), state: last ? state : START });
  show();
}

function choose(position, name) {
  Object.assign(view, { position, name });
  show();
  if (position !== null) revealColumn();
}

// A layer starts as the one before has ended, so that steps pass over the start of all but the first.
const atEnd = () => view.layer === last && (view.state === RULES || !last);
function forth() {
  if (atEnd()) return;
  if (view.state === RULES) go(view.layer + 1, ATTENTION);
  else go(view.layer, view.state + 1);
}
function back() {
  if (view.layer > 1 && view.state !== RULES) go(view.layer - 1, view.state === START ? ATTENTION : RULES);
  else go(view.layer, Math.max(START, view.state - 1));
}

function start() {
  startStream();
  startAttention();
  fill(byId("position"), [["", "all"], ...positions.map((i) => [i, String(i)])]);
  fill(byId("name"), [["", "all"], ...data.shown.map((name) => [name, name])]);
  Object.assign(byId("layer"), { min: Math.min(1, last), max: last, disabled: last < 2 });
  const play = player(byId("play"), {
    rewind: () => { if (atEnd()) go(1, START); },
    advance: () => { forth(); return !atEnd(); },
  });
  const on = (id, event, act) => byId(id)?.addEventListener(event, act);
  on("layer", "input", (e) => go(+e.target.value, view.state));
  on("previous", "click", back);
  on("next", "click", forth);
  on("position", "change", (e) => choose(e.target.value === "" ? null : +e.target.value, view.name));
  on("name", "change", (e) => choose(view.position, e.target.value || null));
  on("parse", "click", (e) => { if (e.target.matches("button")) go(+e.target.closest("tr").dataset.layer, RULES); });
  for (const radio of document.querySelectorAll("input[name=state]")) radio.addEventListener("change", () => go(view.layer, +radio.value));
  stepByKeys("#execution", { back, forth, first: () => go(1, START), last: () => go(last, RULES), play });
  watchPrint();
  show();
  document.documentElement.dataset.ready = "true";
}
start();

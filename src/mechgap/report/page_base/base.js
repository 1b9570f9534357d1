// What every page uses: its data, its elements, choices, playing, and printing.
const data = JSON.parse(document.getElementById("page-data").textContent);
const byId = (id) => document.getElementById(id);

function safe(text) {
  return String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}

// Options are [value, text]; a group is {label, options}.
function fill(select, options, chosen) {
  const option = ([value, text]) => `<option value="${safe(value)}">${safe(text)}</option>`;
  select.innerHTML = options
    .map((o) => (Array.isArray(o) ? option(o) : `<optgroup label="${safe(o.label)}">${o.options.map(option).join("")}</optgroup>`))
    .join("");
  if (chosen !== undefined) select.value = chosen;
}

// A button that plays: `rewind` is called before the first step, `advance` at every step, and says whether one is left.
const PLAY_MS = 900;
function player(button, { rewind, advance }) {
  let timer = 0;
  const show = (text) => {
    button.textContent = text;
    button.setAttribute("aria-pressed", String(timer !== 0));
  };
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    show("Play");
  };
  const toggle = () => {
    if (timer) return stop();
    rewind();
    timer = setInterval(() => advance() || stop(), PLAY_MS);
    return show("Pause");
  };
  button.addEventListener("click", toggle);
  return { stop, toggle };
}

// Arrows step everywhere, other keys only in the viewer; a control, or a table that scrolls, has its own use for them.
function stepByKeys(viewer, { back, forth, first, last, play }) {
  document.addEventListener("keydown", (event) => {
    const { target, key } = event;
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (target.matches("select, input, pre") || (target.matches(".scroll") && target.scrollWidth > target.clientWidth)) return;
    const inside = target.closest(viewer);
    if (key === "ArrowRight") forth();
    else if (key === "ArrowLeft") back();
    else if (inside && key === "Home") first();
    else if (inside && key === "End") last();
    else if (inside && key === " " && !target.matches("button")) play.toggle();
    else return;
    event.preventDefault();
  });
}

// Paper cannot be unfolded: open everything for it, and close it again.
function watchPrint() {
  let closed = [];
  const open = () => {
    if (closed.length) return;
    closed = [...document.querySelectorAll("details:not([open])")];
    closed.forEach((d) => { d.open = true; });
  };
  const close = () => {
    closed.forEach((d) => { d.open = false; });
    closed = [];
  };
  window.addEventListener("beforeprint", open);
  window.addEventListener("afterprint", close);
}

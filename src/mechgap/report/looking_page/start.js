// How the view is changed: by slider, buttons, lists, keys and clicks.
const last = tokens.length - 1;

function show() {
  const words = inWords();
  byId("token").value = view.token;
  byId("token").setAttribute("aria-valuetext", `token ${view.token + 1} of ${tokens.length}, ${plain(tokens[view.token])}`);
  byId("said").textContent = words;
  showTokens();
  showPlaces();
}

function choose(token) {
  view.token = Math.min(Math.max(token, 0), last);
  show();
  revealToken();
}

async function start() {
  for (const kind of ["nodes", "edges"]) arrays[kind] = await unpack(data[kind]);
  const [layers, heads] = [Math.max(arrays.nodes.shape[0], arrays.edges.shape[0]), Math.max(arrays.nodes.shape[1], arrays.edges.shape[1])];
  fill(byId("layer"), layers === 1 && data.layers.length > 1 ? [[0, "mean"]] : data.layers.map((layer, k) => [k, String(layer)]));
  fill(byId("head"), [[0, "mean"], ...range(heads - 1).map((k) => [k + 1, String(k + 1)])]);
  view.layer = layers - 1;
  byId("layer").value = view.layer;
  Object.assign(byId("token"), { max: last, disabled: !last });
  startTokens();
  const play = player(byId("play"), {
    rewind: () => { if (view.token === last) choose(0); },
    advance: () => { choose(view.token + 1); return view.token < last; },
  });
  const on = (id, event, act) => byId(id).addEventListener(event, act);
  on("token", "input", (e) => choose(+e.target.value));
  on("previous", "click", () => choose(view.token - 1));
  on("next", "click", () => choose(view.token + 1));
  for (const id of ["layer", "head"]) on(id, "change", (e) => { view[id] = +e.target.value; show(); });
  stepByKeys("#looking", { back: () => choose(view.token - 1), forth: () => choose(view.token + 1), first: () => choose(0), last: () => choose(last), play });
  watchPrint();
  // Brackets say little: begin with the first number.
  choose(Math.max(0, tokens.findIndex((token) => /\d/.test(token))));
  document.documentElement.dataset.ready = "true";
}
start();

// What is shown, and attention as numbers: w = (byte / 255)², an axis with one entry holds the mean.
const { n, tokens } = data;
const view = { token: 0, layer: 0, head: 0 };
const arrays = {};
const range = (count) => Array.from({ length: count }, (_, i) => i);
const ids = range(n);

// Where the token looked: nodes [n], or pairs [n * n].
function looksAt(kind, token) {
  const { values, shape: [layers, heads, count, places] } = arrays[kind];
  const row = (Math.min(view.layer, layers - 1) * heads + Math.min(view.head, heads - 1)) * count + token;
  return Array.from(values.subarray(row * places, (row + 1) * places), (b) => (b / 255) ** 2);
}

const most = (weights) => weights.indexOf(Math.max(...weights));
const shown = (x) => x.toFixed(x < 0.0995 ? 3 : 2);
const plain = (token) => token.replaceAll("\n", "\\n");
const nodeName = (i) => (data.notes[i] ? `${i} (${data.notes[i]})` : String(i));

function inWords() {
  const t = view.token;
  const looks = looksAt("nodes", t);
  const best = most(looks);
  const right = data.right[t] ? "right" : `wrong${data.meant[t] ? `, should be ${data.meant[t]}` : ""}`;
  const parts = [`Token ${t + 1} of ${tokens.length}, “${plain(tokens[t])}”: ${right}`, `looks most at node ${best} (${shown(looks[best])})`];
  if (data.named[t] >= 0) parts.push(`names node ${data.named[t]} (${shown(looks[data.named[t]])})`);
  if (data.about[t] >= 0) parts.push(`is about node ${data.about[t]} (${shown(looks[data.about[t]])})`);
  return parts.join(" · ");
}

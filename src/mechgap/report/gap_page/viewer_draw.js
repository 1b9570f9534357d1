// Hints of one step: the algorithm's above the network's, a column per node; wrong values are underlined.
function hintsTable(frame) {
  const { n, hints, node } = frame;
  if (!hints.length) return `<p class="note">This network predicts no hints.</p>`;
  const columns = Array.from({ length: n }, (_, i) => `<th scope="col">${i}</th>`).join("");
  const rows = hints.map((hint) => {
    const cells = (who) => (hint.location === "edge"
      ? `<td colspan="${n}">${who === "truth" ? "an entry for every two nodes" : `${hint.wrongCount} of ${hint.count} entries wrong`}</td>`
      : Array.from({ length: hint.count }, (_, i) => {
        const bad = who === "predicted" && hint.wrong(i);
        const span = hint.count === 1 ? ` colspan="${n}"` : "";
        const cls = `${bad ? "wrong" : ""} ${node === i && hint.count > 1 ? "chosen" : ""}`.trim();
        return `<td${span}${cls ? ` class="${cls}"` : ""}>${hint.text(who, i)}${bad ? "<span class=\"visually-hidden\"> wrong</span>" : ""}</td>`;
      }).join(""));
    return `<tbody><tr><th scope="row">${safe(hint.name)}: algorithm</th>${cells("truth")}</tr><tr><th scope="row">${safe(hint.name)}: trained</th>${cells("predicted")}</tr></tbody>`;
  });
  return `<table class="hints"><caption>Hints after this step, node by node</caption><thead><tr><th scope="col">hint</th>${columns}</tr></thead>${rows.join("")}</table>`;
}

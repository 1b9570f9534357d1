// The rules that fire in the layer: at all positions or at the chosen one, all or those that read or write the chosen variable.
function showRules() {
  const fired = last ? data.fired[view.layer - 1].map(([number, where]) => ({ ...data.rules[number], where: data.places[where] })) : [];
  const shown = fired.filter((rule) => (view.position === null || rule.where.includes(view.position))
    && (view.name === null || rule.target === view.name || rule.reads.includes(view.name)));
  const lines = shown.map((rule) => {
    const changes = rule.where.filter((i) => changedAt(rowOf(rule.target), i, RULES));
    const when = rule.when ? ` if ${safe(rule.when)}` : "";
    return `<tr><th scope="row"><code><strong>${safe(rule.does)}</strong>${when}</code></th><td>${ranges(rule.where)}</td><td>${ranges(changes) || "–"}</td></tr>`;
  });
  const where = view.position === null ? "" : ` at position ${view.position}`;
  const which = view.name === null ? "" : `, reading or writing ${view.name}`;
  byId("rules-heading").textContent = `Rules that fire in this layer${where}${which}: ${shown.length}`;
  byId("rules").innerHTML = lines.length
    ? `<table class="fired"><caption class="visually-hidden">Rules, where they fire, and where they change something</caption><thead><tr><th scope="col">rule</th><th scope="col">fires at</th><th scope="col">changes</th></tr></thead><tbody>${lines.join("")}</tbody></table>`
    : "<p class=\"note\">None.</p>";
  const wrong = last ? data.places[data.wrong[view.layer - 1]] : [];
  byId("wrong").hidden = !wrong.length;
  byId("wrong").textContent = `A rule reads an undefined value at ${ranges(wrong)}.`;
}

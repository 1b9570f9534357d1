// All tokens of the answer: a column for each, with its attention to every node.
function startTokens() {
  const head = tokens.map((token, t) => `<th scope="col"><button type="button" class="${data.right[t] ? "right" : "wrong"}" data-token="${t}" aria-label="Token ${t + 1}, ${safe(plain(token))}, ${data.right[t] ? "right" : "wrong"}">${safe(plain(token).trim() || "␣")}</button></th>`);
  const cell = (i, t) => `<td data-token="${t}" class="${data.named[t] === i ? "named" : ""} ${data.about[t] === i ? "about" : ""}"><i></i></td>`;
  const rows = ids.map((i) => `<tr><th scope="row">${i}${data.notes[i] ? ` <small class="note">${safe(data.notes[i])}</small>` : ""}</th>${tokens.map((_, t) => cell(i, t)).join("")}</tr>`);
  byId("tokens").innerHTML = `<table class="looks"><caption class="visually-hidden">Attention of tokens to nodes</caption><thead><tr><th scope="col">node</th>${head.join("")}</tr></thead><tbody>${rows.join("")}</tbody></table>`;
  byId("tokens").addEventListener("click", (event) => {
    const found = event.target.closest("[data-token]");
    if (found) choose(+found.dataset.token);
  });
}

function showTokens() {
  const columns = tokens.map((_, t) => looksAt("nodes", t));
  const top = Math.max(...columns.flat()) || 1;
  document.querySelectorAll(".looks tbody tr").forEach((line, i) => line.querySelectorAll("td").forEach((cell, t) => {
    const w = columns[t][i];
    cell.firstChild.style.opacity = (w / top).toFixed(3);
    cell.title = `token ${t + 1}, “${plain(tokens[t])}”, looks at node ${nodeName(i)}: ${shown(w)}`;
    cell.classList.toggle("chosen", t === view.token);
  }));
  for (const button of document.querySelectorAll(".looks button")) button.setAttribute("aria-pressed", String(+button.dataset.token === view.token));
  const marks = [["named", "framed: the node that the token names"], ["about", "dot: the node that it is about"]].filter(([aim]) => data[aim].some((i) => i >= 0));
  byId("legend").textContent = `Strongest: ${shown(top)}, the most in this layer and head; ${[...marks.map(([, words]) => words), `even attention is ${shown(1 / n)}`].join("; ")}.${data.kept.nodes === "every head" ? "" : ` Kept: ${data.kept.nodes}.`}`;
}

// Bring the chosen column into view, beside the names of nodes, which stay.
function revealToken() {
  const host = byId("tokens");
  const column = host.querySelector(`button[data-token="${view.token}"]`).closest("th");
  const names = host.querySelector("tbody th").offsetWidth;
  const [left, right] = [column.offsetLeft - names, column.offsetLeft + column.offsetWidth - host.clientWidth];
  if (host.scrollLeft > left) host.scrollLeft = left;
  else if (host.scrollLeft < right) host.scrollLeft = right;
}

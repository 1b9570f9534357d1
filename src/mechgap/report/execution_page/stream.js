// The residual stream as a table: made once, then only values and marks are changed, so that focus and scrolling stay.
function startStream() {
  const columns = positions.map((i) => `<th scope="col"><button type="button" tabindex="-1" data-position="${i}" aria-pressed="false" aria-label="position ${i}">${i}</button></th>`);
  const body = rows.map((row, r) => {
    const note = row.note ? ` <small>${safe(row.note)}</small>` : "";
    const cells = positions.map((i) => `<td data-position="${i}"></td>`).join("");
    return `<tr data-name="${safe(row.name)}"${r === data.variables ? " class=\"first-head\"" : ""}${data.shown.includes(row.name) ? "" : " hidden"}><th scope="row">${safe(row.name)}${note}</th>${cells}</tr>`;
  });
  byId("stream").innerHTML = `<table class="stream" style="--columns: ${length}"><caption class="visually-hidden">Values by variable and position</caption><thead><tr><th scope="col">position</th>${columns.join("")}</tr></thead><tbody>${body.join("")}</tbody></table>`;
  byId("stream").addEventListener("click", (event) => {
    const at = event.target.closest("[data-position]");
    if (!at) return;
    const name = at.closest("tr").dataset.name ?? null;
    const again = view.position === +at.dataset.position && view.name === name;
    choose(again ? null : +at.dataset.position, again ? null : name);
  });
}

function showStream() {
  const table = byId("stream").querySelector("table");
  for (const button of table.querySelectorAll("button")) button.setAttribute("aria-pressed", String(+button.dataset.position === view.position));
  [...table.tBodies[0].rows].forEach((line, r) => {
    line.classList.toggle("chosen", view.name === rows[r].name);
    [...line.cells].slice(1).forEach((cell, i) => {
      const code = codeAt(r, i, view.state);
      const text = rows[r].texts[code];
      if (cell.textContent !== text) cell.textContent = text;
      const marks = [
        code === UNDEFINED && "undefined",
        changedAt(r, i, view.state) && "changed",
        i === view.position && view.name === null && "column",
        i === view.position && view.name === rows[r].name && "chosen",
      ];
      cell.className = marks.filter(Boolean).join(" ");
    });
  });
}

// The column of the chosen position, where the table is wider than the screen.
function revealColumn() {
  const region = byId("stream");
  const [corner, column] = [region.querySelector("th"), region.querySelectorAll("thead th")[view.position + 1]];
  const right = column.offsetLeft + column.offsetWidth - region.clientWidth;
  region.scrollLeft = Math.min(Math.max(region.scrollLeft, right), column.offsetLeft - corner.offsetWidth);
}

// What has changed, in words: for those who do not see the marks, and for paper.
const MOST_NAMES = 5;
function changesInWords() {
  if (view.state === START) return "";
  const found = rows
    .map((row, r) => [row.name, positions.filter((i) => changedAt(r, i, view.state))])
    .filter(([name, where]) => where.length && data.shown.includes(name));
  if (!found.length) return "nothing changes";
  const words = found.slice(0, MOST_NAMES).map(([name, where]) => `${name} at ${ranges(where)}`);
  const more = found.length - words.length;
  return `${view.state === ATTENTION ? "read" : "written"}: ${words.join("; ")}${more ? ` and ${more} more` : ""}`;
}

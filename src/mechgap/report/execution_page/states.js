// Every state of the stream, unfolded from what is stored, and which of them is shown.
const [START, ATTENTION, RULES] = [0, 1, 2];
const STATES = ["start", "after attention", "after rules"];
const UNDEFINED = 0; // the first text of every row is ∅
const { length, rows } = data;
const last = data.layers;
const view = { layer: Math.min(1, last), state: START, position: null, name: null };

// Frames [row][position] of the numbers of texts; what does not change is shared between frames.
function unfold({ start, changes }) {
  const frames = [start];
  for (const flat of changes) {
    const before = frames.at(-1);
    const after = [...before];
    for (let i = 0; i < flat.length; i += 3) {
      const [row, position, code] = flat.slice(i, i + 3);
      if (after[row] === before[row]) after[row] = [...before[row]];
      after[row][position] = code;
    }
    frames.push(after);
  }
  return frames;
}
const streams = unfold(data.stream);
const outputs = unfold(data.outputs);

const isHead = (row) => row >= data.variables;
function codeAt(row, position, state) {
  if (isHead(row)) return state === ATTENTION ? outputs[view.layer][row - data.variables][position] : UNDEFINED;
  return streams[state === RULES ? view.layer : Math.max(0, view.layer - 1)][row][position];
}

// Whether a value is new in a state; that outputs are undefined after the rules is nothing new.
function changedAt(row, position, state) {
  if (state === START || isHead(row) !== (state === ATTENTION)) return false;
  return codeAt(row, position, state) !== codeAt(row, position, START);
}

const positions = Array.from({ length }, (_, i) => i);
const rowOf = (name) => rows.findIndex((row) => row.name === name);

// 0, 1, 2, 5 -> "0–2, 5"
function ranges(numbers) {
  const parts = [];
  for (let i = 0; i < numbers.length; i++) {
    const from = i;
    while (numbers[i + 1] === numbers[i] + 1) i++;
    parts.push(from === i ? `${numbers[i]}` : `${numbers[from]}${i - from > 1 ? "–" : ", "}${numbers[i]}`);
  }
  return parts.join(", ");
}

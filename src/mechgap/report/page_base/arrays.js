// Arrays of a page, unpacked when they are first needed.
const ARRAYS = { uint8: Uint8Array, int16: Int16Array, float32: Float32Array };
const unpacked = new Map();

// An array of the page: {values, shape}. The bytes are gzipped and in base64.
function unpack(entry) {
  if (!unpacked.has(entry.blob)) unpacked.set(entry.blob, unpackNow(entry));
  return unpacked.get(entry.blob);
}

async function unpackNow(entry) {
  const text = atob(byId(`blob-${entry.blob}`).textContent);
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(stream).arrayBuffer();
  return { values: new ARRAYS[entry.type](buffer), shape: entry.shape };
}

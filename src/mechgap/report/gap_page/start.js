// Start what the page has.
const PARTS = { scatter: startScatter, time: startTime, viewer: startViewer, learning: startLearning, landscapes: startLandscapes, clusters: startClusters };
async function start() {
  watchWidth();
  watchPrint();
  const there = Object.entries(PARTS).filter(([id]) => byId(id)).map(([, begin]) => begin());
  await Promise.all(there);
  document.documentElement.dataset.ready = "true";
}
start();

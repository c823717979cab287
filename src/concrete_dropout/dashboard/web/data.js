// Data come as scripts that call dashboard(name, packed): a page that was opened as a file may load nothing else.
const waiting = new Map();
const loaded = new Map();

async function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

globalThis.dashboard = (name, packed) => {
  const entry = waiting.get(name);
  if (entry) entry.take(unpack(packed));
};

function script(source, failed) {
  const element = document.createElement("script");
  element.src = source;
  element.onerror = () => { element.remove(); failed(new Error(`${source} could not be loaded`)); };
  element.onload = () => element.remove();
  document.head.append(element);
}

// The value of a data file; its version keeps browsers from showing an old copy.
function load(name, version) {
  const key = `${name}?${version}`;
  if (loaded.has(key)) return loaded.get(key);
  const promise = new Promise((take, fail) => {
    waiting.set(name, {take});
    script(`data/${name}.js?${version}`, fail);
  }).finally(() => waiting.delete(name));
  promise.catch(() => loaded.delete(key));
  if (loaded.size > 400) loaded.delete(loaded.keys().next().value);
  loaded.set(key, promise);
  return promise;
}

const detailOf = (run) => load(`run-${run.id}`, run.versions[0]);
const picturesOf = (run) => (run.versions[1] ? load(`pictures-${run.id}`, run.versions[1]) : Promise.resolve({}));

let plotly = null;
function loadPlotly() {
  plotly = plotly || new Promise((take, fail) => {
    const element = document.createElement("script");
    element.src = document.documentElement.dataset.plotly;
    element.onload = () => take(globalThis.Plotly);
    element.onerror = () => fail(new Error("plotly.js is missing beside the page"));
    document.head.append(element);
  });
  return plotly;
}

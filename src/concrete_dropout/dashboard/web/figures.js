// Figures are drawn when they come into view, in the colours of the scheme, by plotly.js.
const LIGHT = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#4D4D4D", "#8C5BD6"];
const DARK = ["#56B4E9", "#FF8A47", "#2FC79A", "#E3A0C4", "#F2B632", "#8FA8FF", "#AAB4C0", "#C39BFF"];
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid", "dash"];
const dark = matchMedia("(prefers-color-scheme: dark)");
const pending = new WeakMap();
const observer = new IntersectionObserver((entries) => entries.forEach((entry) => {
  if (!entry.isIntersecting) return;
  observer.unobserve(entry.target);
  pending.get(entry.target)().catch((error) => fill(entry.target, h("p", {class: "note"}, `Not drawn: ${error.message}`)));
}), {rootMargin: "200px"});

const palette = () => (dark.matches ? DARK : LIGHT);
const colourOf = (index) => palette()[index % palette().length];
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Do something with a box when it is first looked at.
function whenSeen(box, draw) {
  pending.set(box, draw);
  observer.observe(box);
  return box;
}

function axis(title, more) {
  return {title: {text: title, font: {size: 12, color: css("--ink")}, standoff: 6}, gridcolor: css("--grid"),
    linecolor: css("--strong"), zerolinecolor: css("--grid"), showline: true, automargin: true,
    tickfont: {size: 11, color: css("--muted")}, ...more};
}

function layout(title, x, y, more) {
  return {title: {text: title, font: {size: 14, color: css("--ink")}, x: 0, xanchor: "left", xref: "container", y: 0.97},
    font: {family: getComputedStyle(document.body).fontFamily, size: 12, color: css("--ink")},
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", margin: {l: 8, r: 12, t: 38, b: 8},
    height: 340, hovermode: "closest", showlegend: false, xaxis: axis(x), yaxis: axis(y),
    hoverlabel: {font: {size: 12}}, ...more};
}

// A figure in its place; make() returns [traces, layout] and may wait for data.
function figure(name, caption, make, height = 340) {
  const box = h("div", {class: "plot", role: "img", "aria-label": name, style: `min-height:${height}px`});
  whenSeen(box, async () => {
    const [Plotly, [traces, look]] = await Promise.all([loadPlotly(), make()]);
    if (!box.isConnected) return;
    await Plotly.newPlot(box, traces, {...look, height, dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom"},
      {responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"]});
    box.dataset.drawn = "yes";
  });
  return h("figure", {}, box, h("figcaption", {}, caption));
}

// Plotly puts numbers in place of %{...}.
const formatless = (text) => text.replace(/%\{/g, "%\u200b{");
const hovered = (run) => formatless(label(nameOf(run), 60));

function layersOf(runs) {
  return [...new Set(runs.flatMap((run) => run.layerNames))];
}

// Names without what all of them share in front.
function shortNames(names) {
  const parts = names.map((name) => name.split("."));
  let shared = 0;
  while (parts.length && parts.every((part) => part.length > shared + 2 && part[shared] === parts[0][shared])) shared += 1;
  return parts.map((part) => part.slice(shared).join("."));
}

function heatMap(runs) {
  const layers = layersOf(runs).slice(0, 120), short = shortNames(layers).map((name) => label(name, 34));
  const z = layers.map((layer) => runs.map((run) => run.final[run.layerNames.indexOf(layer)] ?? null));
  const text = layers.map((layer) => runs.map((run) => `${label(nameOf(run), 60)}<br>${label(layer, 60)}`));
  const x = runs.map((_, index) => index + 1), y = short.map((_, index) => index);
  const few = runs.length <= 24;
  const look = layout("", few ? "" : "runs, in the order of the table", "", {margin: {l: 8, r: 8, t: 8, b: 8},
    xaxis: axis(few ? "" : "runs, in the order of the table", {showgrid: false, tickangle: few ? -60 : 0,
      ...(few ? {tickvals: x, ticktext: runs.map((run) => label(nameOf(run), innerWidth < 600 ? 12 : 24))} : {})}),
    yaxis: axis("", {autorange: "reversed", showgrid: false, ticktext: short, tickvals: y,
      tickfont: {size: layers.length > 30 ? 9 : 11, color: css("--muted")}})});
  return [[{type: "heatmap", x, y, z, text, hovertemplate: "%{text}<br>p = %{z:.4f}<extra></extra>", zmin: 0,
    zmax: Math.max(0.5, ...z.flat().filter((value) => value !== null)), xgap: few ? 1 : 0, ygap: 1, colorscale: "Viridis",
    colorbar: {title: {text: "p", side: "top"}, thickness: 12, len: 0.9, outlinewidth: 0,
      tickfont: {color: css("--muted")}}}], look];
}

function endAgainstStart(runs) {
  const layers = layersOf(runs), shades = layers.map((_, i) => `hsl(${255 - (215 * i) / Math.max(1, layers.length - 1)},
    ${dark.matches ? "65%,66%" : "70%,42%"})`.replace(/\s+/g, ""));
  const short = shortNames(layers);
  const traces = layers.map((layer, i) => {
    const points = runs.map((run) => [run, run.layerNames.indexOf(layer)]).filter(([run, at]) => at >= 0
      && typeof run.initial[at] === "number" && typeof run.final[at] === "number");
    return {type: "scatter", mode: "markers", name: label(short[i], 30), x: points.map(([run, at]) => run.initial[at]),
      y: points.map(([run, at]) => run.final[at]), text: points.map(([run]) => label(nameOf(run), 60)),
      hovertemplate: `%{text}<br>${formatless(label(layer, 60))}<br>p from %{x:.4f} to %{y:.4f}<extra></extra>`,
      marker: {color: shades[i], size: 8, opacity: 0.85, line: {width: 1.4, color: shades[i]},
        symbol: points.map(([run, at]) => (run.converged[at] === false ? "circle-open" : "circle"))}};
  });
  const all = traces.flatMap((trace) => [...trace.x, ...trace.y]);
  const end = Math.max(0.1, ...all) * 1.05;
  const diagonal = {type: "scatter", mode: "lines", x: [0, end], y: [0, end], hoverinfo: "skip", showlegend: false,
    line: {color: css("--strong"), dash: "dot", width: 1}};
  return [[diagonal, ...traces], layout("", "p at the start", "p at the end", {margin: {l: 8, r: 12, t: 10, b: 8},
    showlegend: layers.length <= 12, legend: {orientation: "h", y: -0.25, font: {size: 11}}})];
}

async function trajectories(runs, layer) {
  const details = await Promise.all(runs.map(detailOf));
  const traces = runs.map((run, i) => [run, details[i].p[layer], i]).filter(([, points]) => points).map(([run, points, i]) => ({
    type: "scatter", mode: "lines", x: points[0], y: points[1], name: label(nameOf(run), 34),
    line: {color: colourOf(i), dash: DASHES[i % DASHES.length], width: 2},
    hovertemplate: `${hovered(run)}<br>step %{x}: p = %{y:.4f}<extra></extra>`}));
  const top = Math.max(0.1, ...traces.flatMap((trace) => trace.y)) * 1.08;
  return [traces, layout(label(layer, 44), "step", "p", {yaxis: axis("p", {range: [0, top]}), margin: {l: 8, r: 10, t: 34, b: 8}})];
}

async function metricCurves(runs, metric) {
  const details = await Promise.all(runs.map(detailOf));
  const traces = runs.map((run, i) => [run, details[i].curves[metric], i]).filter(([, points]) => points).map(
    ([run, points, i]) => ({type: "scatter", mode: points[0].length > 1 ? "lines" : "markers", x: points[0], y: points[1],
      line: {color: colourOf(i), dash: DASHES[i % DASHES.length], width: 2},
      hovertemplate: `${hovered(run)}<br>step %{x}: %{y:.4g}<extra></extra>`}));
  return [traces, layout(label(`${titleOf(metric.replace("train/", ""))}, ${metric.startsWith("val/") ? "validation" : "training"}`),
    "step", "", {margin: {l: 8, r: 10, t: 34, b: 8}})];
}

async function calibrationCurves(runs, kind) {
  const details = await Promise.all(runs.map(detailOf));
  const curves = runs.map((run, i) => [run, calibrationOf(details[i]), i]).filter(([, curve]) => curve && curve.kind === kind);
  const traces = curves.map(([run, curve, i]) => ({type: "scatter", mode: kind === "coverage" ? "lines" : "lines+markers",
    x: curve.x, y: curve.y, name: label(nameOf(run), 34), line: {color: colourOf(i), dash: DASHES[i % DASHES.length],
      width: kind === "coverage" ? 2 : 1.2}, opacity: 0.9,
    // A point counts by the predictions behind it.
    marker: {line: {width: 0}, size: (curve.share || curve.x).map((share) => (curve.share ? 3 + 16 * Math.sqrt(share || 0) : 6))}, hovertemplate: `${hovered(run)}<br>%{x:.3f}: %{y:.3f}<extra></extra>`}));
  const diagonal = {type: "scatter", mode: "lines", x: [0, 1], y: [0, 1], hoverinfo: "skip",
    line: {color: css("--strong"), dash: "dot", width: 1}};
  const words = kind === "coverage" ? ["probability of the interval", "share of targets in it"] : ["confidence", "share that is right"];
  return [[diagonal, ...traces], layout("", words[0], words[1], {margin: {l: 8, r: 12, t: 10, b: 8},
    xaxis: axis(words[0], {range: [0, 1.01]}), yaxis: axis(words[1], {range: [0, 1.03]})})];
}

const calibrationOf = (detail) => detail.calibration[model.stage] || detail.calibration.test || detail.calibration.val;

async function bandFigure(run, index) {
  const {band} = await detailOf(run);
  const colour = colourOf(index);
  const limits = (name, opacity) => [-1, 1].map((sign) => ({type: "scatter", mode: "lines", x: band.x, hoverinfo: "skip",
    y: band.mean.map((value, i) => value + 2 * sign * band[name][i]), line: {width: 0, color: colour}, opacity,
    ...(sign > 0 ? {fill: "tonexty", fillcolor: `${colour}${name === "epistemic_std" ? "55" : "2b"}`} : {})}));
  return [[...limits("predictive_std", 1), ...limits("epistemic_std", 1), {type: "scatter", mode: "lines", x: band.x, y: band.mean,
    line: {color: colour, width: 2}, hovertemplate: "%{x:.3g}: %{y:.4g}<extra></extra>"}],
  layout(label(nameOf(run), 44), label(band.feature || "x"), label(band.target || "y"), {margin: {l: 8, r: 10, t: 34, b: 8}})];
}

// Two runs side by side: how they stand, scores, p, what differs in their configs, figures, pictures.
function compared() {
  const [first, second] = [...chosenRuns(), ...filtered()].filter((run, i, all) => all.indexOf(run) === i);
  const a = site.byId.get(model.a) || first;
  return [a, site.byId.get(model.b) || [first, second].find((run) => run && run !== a)];
}

function chooser(key, run, runs) {
  const byPath = new Map(site.runs.map((entry) => [entry.path, entry]));
  return h("label", {}, key === "a" ? "Run A" : "Run B", h("input", {type: "text", list: "paths", value: run ? run.path : "",
    "data-focus": `pick-${key}`, spellcheck: "false", autocomplete: "off", onfocus: (event) => event.target.select(),
    onchange: (event) => {
      const found = byPath.get(event.target.value.trim());
      event.target.setCustomValidity(found ? "" : "There is no such run: choose one of the list");
      event.target.reportValidity();
      if (found) change({[key]: found.id}, false);
    }}), run ? h("span", {class: "note"}, run.report ? [link(run.report, "report"), " "] : null, h("span", {class: `badge ${run.state}`}, run.state),
    run.reason ? ` ${run.reason}` : "") : null);
}

function sideBySide(caption, header, rows, numeric) {
  return h("div", {class: "scroll", tabindex: "0"}, h("table", {}, h("caption", {}, caption),
    h("thead", {}, h("tr", {}, header.map((title, i) => h("th", {scope: "col", class: i && numeric && "number"}, title)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, i) => (i ? h("td", {class: numeric ? "number" : "words"}, cell)
      : h("th", {scope: "row"}, cell))))))));
}

function metricRows(a, b) {
  const names = [...new Set([...Object.keys(a.metrics), ...Object.keys(b.metrics)])];
  const place = (name) => (name.startsWith("test/") ? 0 : 1);
  names.sort((x, y) => place(x) - place(y) || x.localeCompare(y));
  return names.map((name) => {
    const left = a.metrics[name], right = b.metrics[name], difference = right - left;
    const sign = (BETTER[name.replace(/^(test|val)\//, "").replace(/_no_mc$/, "")] || 0) * Math.sign(difference);
    const shown = (value, wins) => (wins ? h("span", {class: "better"}, number(value), h("span", {class: "hidden"}, " (better)"))
      : number(value));
    return [`${titleOf(name)} (${name.startsWith("test/") ? "test" : "validation"})`, shown(left, sign < 0), shown(right, sign > 0),
      Number.isNaN(difference) ? MISSING : (difference > 0 ? "+" : "") + number(difference, 3)];
  });
}

function layerRows(a, b) {
  const at = (run, values, layer) => probability(values[run.layerNames.indexOf(layer)]);
  return layersOf([a, b]).map((layer) => [h("code", {}, layer), at(a, a.initial, layer), at(a, a.final, layer),
    at(b, b.initial, layer), at(b, b.final, layer)]);
}

function drawCompare(place) {
  const [a, b] = compared();
  const runs = filtered();
  const picker = h("div", {class: "pick"}, chooser("a", a, runs), chooser("b", b, runs),
    h("datalist", {id: "paths"}, runs.slice(0, 2000).map((run) => h("option", {value: run.path}, run.label || ""))));
  if (!a || !b) return fill(place, picker, nothing("Two runs are needed for a comparison."));
  const rest = h("div", {}, h("p", {class: "note"}, "Loading…"));
  const facts = (title, value) => [title, value(a) || MISSING, value(b) || MISSING];
  fill(place, picker,
    sideBySide("How they stand", ["", "A", "B"], [facts("State", (r) => r.state), facts("Experiment", (r) => r.experiment),
      facts("Dropout", (r) => r.dropout), facts("Initial p", (r) => r.startText), facts("Seed", (r) => r.seed),
      facts("Steps", stepCell), facts("Started", (r) => moment(r.started)), facts("Time", (r) => seconds(r.seconds)),
      facts("Differs from the defaults in", (r) => h("code", {}, r.settings.join("  ")))]), rest);
  Promise.all([a, b].map(detailOf)).then(([left, right]) => {
    if (rest.isConnected) fill(rest, comparison(a, b, left, right));
  }).catch((error) => fill(rest, nothing(`The details could not be loaded: ${error.message}`)));
  return undefined;
}

function comparison(a, b, left, right) {
  const keys = [...new Set([...Object.keys(left.config), ...Object.keys(right.config)])];
  const differing = keys.filter((key) => left.config[key] !== right.config[key]);
  const value = (config, key) => (key in config ? h("code", {}, config[key]) : MISSING);
  const metrics = metricRows(a, b), layers = layerRows(a, b);
  const shared = Object.keys({...left.curves, ...right.curves}).filter((name) => ["val/nll", "val/rmse", "val/accuracy", "val/miou",
    "train/nll", "train/kl"].includes(name));
  return [
    [[a, left, "A"], [b, right, "B"]].map(([, detail, name]) => [detail.error ? h("div", {class: "error"}, `${name}: ${detail.error}`) : null,
      detail.problems.length ? h("div", {class: "error"}, `${name}: ${detail.problems.join("\n")}`) : null]),
    keyOf([a, b]),
    h("h2", {}, "What differs in their configs"),
    differing.length ? sideBySide(`${plural(differing.length, "setting")} of ${keys.length}`, ["Key", "A", "B"],
      differing.map((key) => [h("code", {}, key), value(left.config, key), value(right.config, key)]))
      : nothing(keys.length ? "Their configs are the same." : "Neither has a readable config."),
    h("h2", {}, "Scores"),
    metrics.length ? sideBySide("The better one is bold where one is better", ["", "A", "B", "B − A"], metrics, true) : nothing("No scores yet."),
    h("h2", {}, "Dropout probabilities"),
    layers.length ? [sideBySide("p of every layer", ["Layer", "A, initial", "A, final", "B, initial", "B, final"], layers, true),
      h("div", {class: "grid"}, layersOf([a, b]).filter((layer) => left.p[layer] || right.p[layer]).slice(0, 12).map((layer) =>
        figure(`p of ${layer}`, "", () => trajectories([a, b], layer), 250)))] : nothing("Neither has dropout layers."),
    shared.length ? [h("h2", {}, "Training"), h("div", {class: "grid"}, shared.map((name) => figure(name, "", () =>
      metricCurves([a, b], name), 250)))] : null,
    calibrationOf(left) || calibrationOf(right) ? [h("h2", {}, "Calibration"), h("div", {class: "two"}, [...new Set([left, right].map(calibrationOf)
      .filter(Boolean).map((curve) => curve.kind))].map((kind) => figure(`Calibration, ${kind}`, kind === "coverage"
      ? "Coverage of central intervals." : "Share of right predictions by confidence.", () => calibrationCurves([a, b], kind), 380)))] : null,
    left.band.x || right.band.x ? h("div", {class: "two"}, [a, b].map((run, i) => ([left, right][i].band.x
      ? figure(`Band of ${nameOf(run)}`, "", () => bandFigure(run, i), 300) : h("div", {})))) : null,
    a.has.includes("pictures") || b.has.includes("pictures") ? [h("h2", {}, "Pictures"), h("div", {class: "two"},
      [a, b].map((run) => pictureCard(run)))] : null,
    h("h2", {}, "Commands"),
    sideBySide("How to make them again", ["", "A", "B"], ["command", "commit", "hardware", "num_train", "num_parameters"].map((key) =>
      [key.replace(/_/g, " "), left.facts[key] ? h("code", {}, left.facts[key]) : MISSING, right.facts[key] ? h("code", {}, right.facts[key]) : MISSING])),
  ];
}

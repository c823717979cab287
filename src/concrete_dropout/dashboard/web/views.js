// The parts of the page beside the table: learned p, calibration, pictures, studies.
const FIRST_RUNS = `Lines and pictures are those of the first ${MAX_DRAWN} runs of the table; tick rows there to choose others.`;

function drawTray() {
  const chosen = chosenRuns();
  const hints = {runs: "Tick rows to choose what the other views show.", p: FIRST_RUNS, calibration: FIRST_RUNS, pictures: FIRST_RUNS};
  if (!chosen.length) {
    fill(byId("tray"), hints[model.tab] ? h("span", {class: "note"}, hints[model.tab]) : "");
    return;
  }
  const shown = chosen.slice(0, MAX_DRAWN);
  fill(byId("tray"), h("span", {class: "note"}, chosen.length > MAX_DRAWN
    ? `${chosen.length} chosen, the first ${MAX_DRAWN} are drawn:` : "Chosen:"),
  shown.map((run, i) => h("span", {class: "chosen", title: run.path}, swatch(i), h("span", {}, nameOf(run)),
    h("button", {type: "button", "aria-label": `Drop ${nameOf(run)}`, onclick: () => choose(run.id, false)}, "×"))),
  chosen.length >= 2 ? h("button", {type: "button", class: "plain", onclick: () => change({tab: "compare", a: chosen[0].id,
    b: chosen[1].id})}, "Compare the first two") : null,
  h("button", {type: "button", class: "plain", onclick: () => change({chosen: ""}, false)}, "Choose none"));
}

function swatch(index) {
  const dot = h("i", {"aria-hidden": "true"});
  dot.style.background = colourOf(index);
  return dot;
}

function keyOf(runs) {
  return h("ul", {class: "chips", "aria-label": "Colours"}, runs.map((run, i) => h("li", {class: "chosen"}, swatch(i),
    h("span", {}, nameOf(run)))));
}

const nothing = (text) => h("p", {class: "empty"}, text);

function drawProbabilities(place) {
  const pool = chosenRuns().length ? chosenRuns() : filtered();
  const with_p = pool.filter((run) => known(run.final).length);
  const learned = with_p.filter((run) => run.learned);
  const runs = with_p.slice(0, MAX_COMPARED);
  if (!runs.length) return fill(place, nothing("None of these runs has dropout layers on record."));
  const lines = drawnRuns("p"), layers = layersOf(lines), shown = Math.min(Number(model.layers) || 6, layers.length);
  const cut = with_p.length > runs.length ? ` The first ${runs.length} of ${with_p.length.toLocaleString("en-US")} runs.` : "";
  const rows = Math.min(120, layersOf(runs).length);
  return fill(place,
    h("h2", {}, "Final p, layer by run"),
    figure("Heat map of p", `Layers from the input (top) to the output.${cut} Sort or filter the table to order them.`,
      async () => heatMap(runs), Math.min(900, Math.max(260, 150 + 17 * rows))),
    h("h2", {}, "Where p ends, against where it starts"),
    learned.length ? figure("Final against initial p", "One point per layer and run. A level line of points says that a "
      + `layer finds its p from anywhere; open points had not converged.${cut}`,
    async () => endAgainstStart(learned.slice(0, MAX_COMPARED)), 400) : nothing("No p of these runs is learned."),
    h("h2", {}, "p through training"),
    lines.length ? [keyOf(lines), h("div", {class: "grid"}, layers.slice(0, shown).map((layer) =>
      figure(`p of ${layer}`, "", () => trajectories(lines, layer), 250))),
    shown < layers.length ? h("button", {type: "button", onclick: () => change({layers: String(shown + 12)}, false)},
      `More layers (${layers.length - shown} left)`) : null] : nothing("No p over steps is on record for these runs."));
}

function drawCalibration(place) {
  const runs = drawnRuns("calibration");
  if (!runs.length) return fill(place, nothing("None of these runs has calibration curves yet."));
  const regression = runs.filter((run) => run.task === "regression");
  const classes = runs.filter((run) => run.task !== "regression");
  const words = model.stage === "test" ? "Test" : "Validation";
  const names = ["calibration_rmse", "ece", "mce", "nll", "brier", "crps", "sharpness"].filter((name) =>
    runs.some((run) => scored(run, name) !== undefined));
  return fill(place, keyOf(runs), h("div", {class: "two"},
    regression.length ? h("div", {}, h("h2", {}, "Coverage of intervals"), figure("Coverage",
      `${words} data where they were scored. Below the diagonal: intervals hold less than they promise.`,
      () => calibrationCurves(runs, "coverage"), 400)) : null,
    classes.length ? h("div", {}, h("h2", {}, "Reliability of confidence"), figure("Reliability",
      `${words} data where they were scored. Below the diagonal: overconfident. Large points have many predictions behind them.`,
      () => calibrationCurves(runs, "reliability"), 400)) : null),
  names.length ? h("div", {class: "scroll", tabindex: "0"}, h("table", {}, h("caption", {}, `Scores on ${words.toLowerCase()} data`),
    h("thead", {}, h("tr", {}, h("th", {scope: "col"}, "Run"), names.map((name) => h("th", {scope: "col", class: "number"},
      titleOf(name))))),
    h("tbody", {}, runs.map((run, i) => h("tr", {}, h("th", {scope: "row", class: "run"}, h("span", {class: "chosen"}, swatch(i),
      h("span", {}, nameOf(run)))), names.map((name) => h("td", {class: "number"}, number(scored(run, name))))))))) : null);
}

function drawPictures(place) {
  const pictured = drawnRuns("pictures"), banded = drawnRuns("band");
  if (!pictured.length && !banded.length) return fill(place, nothing("None of these runs has pictures or bands."));
  return fill(place,
    banded.length ? [h("h2", {}, "Predictions with their uncertainty"), h("p", {class: "note"}, "Mean with two standard "
      + "deviations: what the model does not know (dark), and with the noise (light)."),
    h("div", {class: "grid"}, banded.map((run, i) => figure(`Band of ${nameOf(run)}`, "", () => bandFigure(run, i), 270)))] : null,
    pictured.length ? [h("h2", {}, "Pictures"), pictured.map((run) => pictureCard(run))] : null);
}

function pictureCard(run) {
  const place = h("div", {}, h("p", {class: "note"}, "Loading…"));
  const card = h("section", {class: "card"}, h("h3", {}, link(run.report, nameOf(run)), " ", h("span", {class: `badge ${run.state}`},
    run.state)), h("p", {class: "note"}, [run.experiment, run.dropout && `dropout ${run.dropout}`, run.startP !== null
    && `p from ${run.startText}`].filter(Boolean).join(" · ")), place);
  whenSeen(card, async () => fill(place, pictureParts(await picturesOf(run))));
  return card;
}

const KINDS = {uncertain: "Most uncertain", wrong: "Most confidently wrong"};
const PANELS = {input: "Input", target: "Ground truth", prediction: "Prediction", epistemic: "Epistemic",
  aleatoric: "Aleatoric", error: "Error"};

function picture([source, width, height], alt) {
  return h("img", {src: source, alt, width, height, loading: "lazy", class: Math.max(width, height) < 128 && "small"});
}

function pictureParts(found, limit = 99) {
  const {samples, maps} = found;
  const kinds = samples ? [...new Set(samples.items.map((item) => item.kind))] : [];
  const words = (stage) => (stage === "test" ? "test data" : "validation data");
  return [kinds.map((kind) => [h("h3", {}, `${KINDS[kind] || kind}, ${words(samples.stage)}`), h("ul", {class: "tiles"},
    samples.items.filter((item) => item.kind === kind).slice(0, limit).map((item) => h("li", {},
      picture(item.picture, `${item.name}: ${item.target}, predicted ${item.predicted}`),
      item.target === item.predicted ? item.target : [item.target, " taken for ", h("span", {class: "wrong"}, item.predicted)],
      h("small", {}, ` ${number(100 * item.confidence, 3)} % sure`))))]),
  maps ? [h("h3", {}, `Maps, ${words(maps.stage)}`), maps.images.slice(0, limit).map((image) => [h("p", {class: "note"},
    `${image.name}${image.step !== null ? `, step ${image.step.toLocaleString("en-US")}` : ""}`),
  h("div", {class: "panels"}, Object.keys(PANELS).filter((kind) => image[kind]).map((kind) => h("figure", {},
    picture(image[kind], `${PANELS[kind]} of ${image.name}`), h("figcaption", {}, PANELS[kind],
      image.numbers[kind] === null || image.numbers[kind] === undefined ? "" : kind === "error"
        ? `: ${number(100 * image.numbers[kind], 3)} % wrong` : `: mean ${number(image.numbers[kind], 2)}`))))])] : null];
}

function drawStudies(place) {
  if (!site.groups.length) return fill(place, nothing("There are no studies or sweeps. python train.py -m sweep=init_p makes one."));
  const groups = [...site.groups].sort((a, b) => b.started.localeCompare(a.started));
  return fill(place, h("div", {class: "scroll", tabindex: "0"}, h("table", {}, h("caption", {}, "Studies and sweeps, the newest first"),
    h("thead", {}, h("tr", {}, ["Folder", "Kind", "State", "Experiment", "Runs", "Started", ""].map((title) => h("th", {scope: "col"}, title)))),
    h("tbody", {}, groups.map((group) => h("tr", {}, h("th", {scope: "row", class: "run"}, link(group.report, group.path),
      group.report ? null : h("small", {}, "no report yet: python dashboard.py --sweep FOLDER")),
    h("td", {}, group.kind), h("td", {class: "state"}, h("span", {class: `badge ${group.state}`}, group.state),
      group.problems.map((problem) => h("small", {}, problem))),
    h("td", {}, group.experiment || MISSING), h("td", {class: "words"}, `${group.planned}: `
      + Object.entries(group.states).map(([state, count]) => `${count} ${state}`).join(", ")),
    h("td", {}, moment(group.started)), h("td", {}, h("button", {type: "button", onclick: () => change({tab: "runs",
      group: group.key, chosen: ""})}, "Show its runs"))))))));
}

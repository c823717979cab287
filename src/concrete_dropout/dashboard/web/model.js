// What is looked at: filters, order, chosen runs. All of it is in the address, so that a reload or a copy keeps it.
const DEFAULTS = {tab: "runs", q: "", experiment: "", dropout: "", state: "", group: "", stage: "test", sort: "-started",
  page: "1", size: "50", chosen: "", a: "", b: "", columns: "", layers: "6"};
const STATES = ["finished", "running", "stopped", "crashed", "damaged"];
const MAX_DRAWN = 8;     // runs in one figure of lines
const MAX_COMPARED = 300; // runs in one heat map
const BETTER = {reward: 1, miou: 1, accuracy: 1, class_accuracy: 1, log_likelihood: 1, elbo: 1, nll: -1, rmse: -1,
  mae: -1, crps: -1, ece: -1, mce: -1, brier: -1, calibration_rmse: -1};
const TITLES = {nll: "NLL", rmse: "RMSE", mae: "MAE", crps: "CRPS", ece: "ECE", mce: "MCE", miou: "mIoU",
  brier: "Brier score", log_likelihood: "Log-likelihood", calibration_rmse: "Calibration RMSE", elbo: "ELBO"};
const FIRST = ["reward", "miou", "accuracy", "nll", "rmse", "calibration_rmse", "ece", "crps", "brier"];
const model = {...DEFAULTS};
const site = {runs: [], groups: [], layers: [], root: "", built: "", version: "", refresh: 0, byId: new Map()};

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  for (const key of Object.keys(DEFAULTS)) model[key] = given.get(key) ?? DEFAULTS[key];
}

function writeAddress() {
  const changed = Object.entries(model).filter(([key, value]) => value !== DEFAULTS[key]);
  const text = new URLSearchParams(changed).toString();
  if (text !== location.hash.slice(1)) history.replaceState(null, "", `#${text}`);
}

function titleOf(metric) {
  const plain = metric.replace(/^(test|val)\//, "");
  if (plain.endsWith("_no_mc")) return `${titleOf(plain.slice(0, -6))}, no MC`;
  const words = plain.replace(/_/g, " ");
  return TITLES[plain] || words[0].toUpperCase() + words.slice(1);
}

// A metric of the chosen data; that of the other where a run has not come to these.
const scored = (run, name) => run.metrics[`${model.stage}/${name}`];
const nameOf = (run) => run.label ? `${run.label}` : run.path;
const mean = (values) => (values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null);
const known = (values) => values.filter((value) => typeof value === "number");

function prepare(table) {
  Object.assign(site, {runs: table.runs, groups: table.groups, layers: table.layers, root: table.root});
  site.byId = new Map(site.runs.map((run) => [run.id, run]));
  for (const run of site.runs) {
    run.layerNames = site.layers[run.layers];
    const initial = known(run.initial), final = known(run.final);
    run.startP = initial.length && run.dropout !== "none" ? mean(initial) : null;
    run.startText = run.startP === null ? MISSING : reach(initial);
    run.endP = final.length ? mean(final) : null;
    const end = Date.parse(run.ended) || (run.state === "running" ? Date.parse(site.built) : NaN);
    run.seconds = (end - Date.parse(run.started)) / 1000;
    run.text = [run.path, run.label, run.experiment, run.dropout, run.state, run.reason, run.task,
      ...run.settings].join(" ").toLowerCase();
  }
}

function reach(values) {
  const low = Math.min(...values), high = Math.max(...values);
  return probability(low) === probability(high) ? probability(low) : `${probability(low)}–${probability(high)}`;
}

const FIELDS = {experiment: (r) => r.experiment, dropout: (r) => r.dropout, state: (r) => r.state, seed: (r) => r.seed,
  task: (r) => r.task, path: (r) => r.path, study: (r) => r.group, step: (r) => r.step, init_p: (r) => r.startP,
  p: (r) => r.endP, seconds: (r) => r.seconds};

// One word of the search: text (always so in quotes), or a comparison such as test/nll<0.3, dropout=concrete.
function condition(given) {
  const word = given.replace(/"/g, "");
  if (given.startsWith('"')) return (run) => run.text.includes(word.toLowerCase());
  const found = /^([\w./-]+?)(<=|>=|!=|=|<|>)(.+)$/.exec(word);
  const key = found && found[1].toLowerCase();
  const isMetric = found && site.runs.some((run) => key in run.metrics || `${model.stage}/${key}` in run.metrics);
  if (!found || !(key in FIELDS || isMetric)) return (run) => run.text.includes(word.toLowerCase());
  const value = key in FIELDS ? FIELDS[key] : (run) => run.metrics[key] ?? scored(run, key);
  const [, , sign, wanted] = found;
  const limit = Number(wanted);
  return (run) => {
    const own = value(run);
    if (own === null || own === undefined || own === "") return sign === "!=";
    if (sign === "=" || sign === "!=") {
      const same = Number.isNaN(limit) ? String(own).toLowerCase() === wanted.toLowerCase() : Number(own) === limit;
      return same === (sign === "=");
    }
    const amount = Number(own);
    return {"<": amount < limit, ">": amount > limit, "<=": amount <= limit, ">=": amount >= limit}[sign];
  };
}

function filtered() {
  const words = model.q.match(/"[^"]*"|\S+/g) || [];
  const conditions = words.map(condition);
  for (const key of ["experiment", "dropout", "state"]) if (model[key]) conditions.push((run) => run[key] === model[key]);
  if (model.group) conditions.push((run) => run.group === model.group);
  const found = site.runs.filter((run) => conditions.every((holds) => holds(run)));
  const down = model.sort.startsWith("-"), key = model.sort.replace(/^-/, "");
  const column = allColumns().find((entry) => entry.key === key) || allColumns().find((entry) => entry.key === "started");
  const order = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b
    : String(a).localeCompare(String(b), "en", {numeric: true}));
  const missing = (value) => value === null || value === undefined || value === "" || Number.isNaN(value);
  return found.map((run) => [column.value(run), run]).sort(([a, x], [b, y]) => {
    if (missing(a) || missing(b)) return missing(a) - missing(b) || x.path.localeCompare(y.path);
    return (down ? -order(a, b) : order(a, b)) || x.path.localeCompare(y.path);
  }).map(([, run]) => run);
}

const chosenIds = () => (model.chosen ? model.chosen.split(".") : []);
const chosenRuns = () => chosenIds().map((id) => site.byId.get(id)).filter(Boolean);

// The runs that figures of lines show: the chosen ones, else the first of the table.
function drawnRuns(has) {
  const chosen = chosenRuns();
  const pool = chosen.length ? chosen : filtered();
  return pool.filter((run) => !has || run.has.includes(has)).slice(0, MAX_DRAWN);
}

function choose(id, on) {
  const ids = chosenIds().filter((other) => other !== id);
  if (on) ids.push(id);
  change({chosen: ids.join(".")}, false);
}

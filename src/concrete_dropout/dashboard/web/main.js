// Puts it together: what a change draws again, news of the data, keys.
const TABS = {runs: "Runs", p: "Learned p", calibration: "Calibration", pictures: "Pictures", compare: "Compare",
  studies: "Studies and sweeps"};
const VIEWS = {p: drawProbabilities, calibration: drawCalibration, pictures: drawPictures, compare: drawCompare,
  studies: drawStudies};

// Change what is looked at; a new filter or order begins at the first page.
function change(changes, rewind = true) {
  Object.assign(model, rewind && !("page" in changes) ? {page: "1"} : {}, changes);
  writeAddress();
  draw();
}

function options(values, chosen, every) {
  return [h("option", {value: ""}, every), [...new Set(values)].filter(Boolean).sort((a, b) => a.localeCompare(b, "en", {numeric: true}))
    .map((value) => h("option", {value, selected: value === chosen}, value))];
}

function drawFilters() {
  const counts = new Map(STATES.map((state) => [state, site.runs.filter((run) => run.state === state).length]));
  fill(byId("facts"), `${site.root} · ${plural(site.runs.length, "run")} · ${site.groups.length === 1
    ? "1 study or sweep" : `${site.groups.length} studies and sweeps`} · built ${moment(site.built)} UTC`,
  site.refresh ? [" · ", h("span", {class: "live"}, "follows the runs")] : "");
  fill(byId("states"), h("li", {}, h("button", {type: "button", class: "chip", "aria-pressed": String(!model.state), "data-focus": "state-",
    onclick: () => change({state: ""})}, `all ${site.runs.length.toLocaleString("en-US")}`)), STATES.filter((state) => counts.get(state)).map((state) =>
    h("li", {}, h("button", {type: "button", class: "chip", "aria-pressed": String(model.state === state), "data-focus": `state-${state}`,
      onclick: () => change({state: model.state === state ? "" : state})}, `${state} ${counts.get(state).toLocaleString("en-US")}`))));
  fill(byId("experiment"), options(site.runs.map((run) => run.experiment), model.experiment, "all experiments"));
  fill(byId("dropout"), options(site.runs.map((run) => run.dropout), model.dropout, "all kinds"));
  fill(byId("group"), options(site.groups.map((group) => group.key), model.group, "all"));
  for (const key of ["experiment", "dropout", "group", "stage"]) byId(key).value = model[key];
  if (document.activeElement !== byId("q")) byId("q").value = model.q;
  byId("reset").disabled = ["q", "experiment", "dropout", "state", "group"].every((key) => !model[key]);
}

function drawTabs() {
  const tab = model.tab in TABS ? model.tab : "runs";
  fill(byId("tabs"), Object.entries(TABS).map(([key, title]) => h("button", {type: "button", role: "tab", id: `tab-${key}`,
    "data-focus": `tab-${key}`, "aria-selected": String(key === tab), "aria-controls": `panel-${key}`, tabindex: key === tab ? "0" : "-1",
    onclick: () => change({tab: key}, false)}, title)));
  // On a narrow screen the tabs are wider than it.
  const at = byId(`tab-${tab}`), bar = byId("tabs");
  if (bar.scrollWidth > bar.clientWidth) bar.scrollLeft = at.offsetLeft - bar.offsetLeft - (bar.clientWidth - at.offsetWidth) / 2;
  for (const key of Object.keys(TABS)) byId(`panel-${key}`).hidden = key !== tab;
  return tab;
}

function draw() {
  // What had the keyboard keeps it, though its element is made anew.
  const focus = document.activeElement?.dataset?.focus;
  const scrolled = document.querySelector("#table .scroll")?.scrollLeft || 0;
  drawFilters();
  const tab = drawTabs();
  drawTray();
  if (tab === "runs") drawTable();
  else VIEWS[tab](byId(`panel-${tab}`));
  const scroll = document.querySelector("#table .scroll");
  if (scroll) scroll.scrollLeft = scrolled;
  if (focus) document.querySelector(`[data-focus="${CSS.escape(focus)}"]`)?.focus({preventScroll: true});
}

async function news() {
  const version = await load("version", Date.now());
  const isNew = version.table !== site.version;
  site.refresh = version.refresh;
  if (isNew) {
    const table = await load(`table-${version.table}`, version.table);
    Object.assign(site, {version: version.table, built: version.built});
    prepare(table);
  }
  return isNew;
}

function follow() {
  const again = () => setTimeout(async () => {
    if (!document.hidden && site.refresh) {
      // A table that is just being replaced is there at the next look.
      try { if (await news()) draw(); } catch { /* the next look will tell */ }
    }
    again();
  }, Math.max(1000, 1000 * (site.refresh || 5)));
  again();
  document.addEventListener("visibilitychange", async () => {
    if (document.hidden) return;
    try { if (await news()) draw(); } catch { /* the files are not there for now */ }
  });
}

function listen() {
  let typed = null;
  byId("q").addEventListener("input", (event) => {
    clearTimeout(typed);
    typed = setTimeout(() => change({q: event.target.value}), 120);
  });
  for (const key of ["experiment", "dropout", "group", "stage"]) {
    byId(key).addEventListener("change", (event) => change({[key]: event.target.value}));
  }
  byId("reset").addEventListener("click", () => { byId("q").value = ""; change({q: "", experiment: "", dropout: "", state: "", group: ""}); });
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("tabs").addEventListener("keydown", (event) => {
    const keys = Object.keys(TABS), at = keys.indexOf(model.tab);
    const to = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: keys.length - 1}[event.key];
    if (to === undefined) return;
    event.preventDefault();
    change({tab: keys[(to + keys.length) % keys.length]}, false);
    byId(`tab-${model.tab}`).focus();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName || "")) {
      event.preventDefault();
      byId("q").focus();
    }
    if (event.key === "Escape" && byId("columns")?.open) { byId("columns").open = false; byId("columns").firstChild.focus(); }
  });
  addEventListener("hashchange", () => { readAddress(); draw(); });
  dark.addEventListener("change", draw);
}

(async () => {
  if (typeof DecompressionStream === "undefined") throw new Error("this page needs a browser from 2023 or later");
  readAddress();
  await news();
  listen();
  draw();
  follow();
})().catch((error) => fill(byId("table"), h("p", {class: "empty"}, `The dashboard could not be shown: ${error.message}`)))
  .finally(() => document.documentElement.setAttribute("data-ready", "yes"));

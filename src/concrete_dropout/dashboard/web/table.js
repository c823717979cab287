// The table of runs: one page of rows at a time, whatever their number.
let columnsCache = {key: "", columns: []};

function allColumns() {
  const key = `${site.version} ${model.stage}`;
  if (columnsCache.key === key) return columnsCache.columns;
  const names = new Set();
  for (const run of site.runs) {
    for (const name in run.metrics) if (name.startsWith(`${model.stage}/`)) names.add(name.slice(model.stage.length + 1));
  }
  const place = (name) => (FIRST.includes(name) ? FIRST.indexOf(name) : FIRST.length);
  const metrics = [...names].sort((a, b) => place(a) - place(b) || a.localeCompare(b)).map((name) => ({
    key: name, title: titleOf(name), numeric: true, metric: true, value: (run) => scored(run, name),
    show: (run) => number(scored(run, name)),
  }));
  const columns = [
    {key: "path", title: "Run", value: (run) => nameOf(run), show: runCell, cell: "run"},
    {key: "state", title: "State", value: (run) => STATES.indexOf(run.state), show: stateCell, cell: "state"},
    {key: "experiment", title: "Experiment", value: (run) => run.experiment},
    {key: "dropout", title: "Dropout", value: (run) => run.dropout},
    {key: "init_p", title: "Initial p", numeric: true, value: (run) => run.startP, show: (run) => run.startText},
    {key: "p", title: "Final p", numeric: true, value: (run) => run.endP, show: probabilityCell},
    ...metrics,
    {key: "seed", title: "Seed", numeric: true, value: (run) => (run.seed === "" ? null : Number(run.seed)),
      show: (run) => run.seed},
    {key: "step", title: "Steps", numeric: true, value: (run) => run.step, show: stepCell},
    {key: "started", title: "Started", value: (run) => run.started, show: (run) => moment(run.started)},
    {key: "seconds", title: "Time", numeric: true, value: (run) => run.seconds, show: (run) => seconds(run.seconds)},
    {key: "settings", title: "Settings", value: (run) => run.settings.join(" "), show: settingsCell, cell: "words"},
  ];
  columnsCache = {key, columns};
  return columns;
}

function shownColumns(runs) {
  if (model.columns) {
    const wanted = model.columns.split(",");
    return allColumns().filter((column) => column.key === "path" || wanted.includes(column.key));
  }
  // As many metrics as fit, of those that these runs have.
  const metrics = allColumns().filter((column) => column.metric && FIRST.includes(column.key)
    && runs.some((run) => column.value(run) !== undefined)).slice(0, 5);
  const seeds = new Set(runs.map((run) => run.seed)).size > 1;
  return allColumns().filter((column) => (column.metric ? metrics.includes(column) : column.key !== "seed" || seeds));
}

function runCell(run) {
  const below = run.label ? run.path : "";
  return [link(run.report, nameOf(run)), below ? h("small", {}, below) : null];
}

function stateCell(run) {
  const problems = run.problems.filter((problem) => problem !== run.reason);
  return [h("span", {class: `badge ${run.state}`}, run.state), run.reason ? h("small", {title: run.reason}, run.reason) : null,
    problems.length ? h("small", {title: problems.join("\n")}, `⚠ ${problems[0]}`,
      problems.length > 1 ? ` (and ${problems.length - 1} more)` : "") : null];
}

function probabilityCell(run) {
  const values = known(run.final);
  return values.length ? [bars(run), h("small", {}, reach(values))] : MISSING;
}

// p of every layer from the first to the last; yellow while it still moved.
function bars(run) {
  const width = Math.max(2, Math.min(9, Math.floor(72 / run.final.length) - 1)), height = 18, step = width + 1;
  const parts = run.final.map((p, i) => {
    const size = Math.max(1, Math.min(1, (p || 0) / 0.6) * height);
    return svg("rect", {x: i * step, y: height - size, width, height: size,
      class: run.learned && run.converged[i] === false ? "moving" : "still"});
  });
  return svg("svg", {class: "bars", width: step * run.final.length, height, "aria-hidden": "true"}, ...parts);
}

function stepCell(run) {
  if (run.step === null) return MISSING;
  const of = run.steps > 0 && run.step < run.steps ? ` of ${run.steps.toLocaleString("en-US")}` : "";
  return run.step.toLocaleString("en-US") + of;
}

function settingsCell(run) {
  return run.settings.length ? h("code", {}, run.settings.join("  ")) : MISSING;
}

function drawTable() {
  const runs = filtered(), size = Number(model.size) || 50, pages = Math.max(1, Math.ceil(runs.length / size));
  const page = Math.min(Math.max(1, Number(model.page) || 1), pages);
  const rows = runs.slice((page - 1) * size, page * size);
  const columns = shownColumns(rows);
  const chosen = new Set(chosenIds());
  const down = model.sort.startsWith("-"), sorted = model.sort.replace(/^-/, "");
  const head = columns.map((column) => h("th", {scope: "col", class: column.numeric && "number",
    "aria-sort": column.key === sorted ? (down ? "descending" : "ascending") : null},
    h("button", {type: "button", "data-focus": `sort-${column.key}`,
      onclick: () => change({sort: column.key === sorted && !down ? `-${column.key}` : column.key})}, column.title)));
  const body = rows.map((run) => h("tr", {class: chosen.has(run.id) && "on", "data-run": run.id},
    h("td", {class: "check"}, h("input", {type: "checkbox", checked: chosen.has(run.id), "data-focus": `choose-${run.id}`,
      "aria-label": `Choose ${nameOf(run)}`, onchange: (event) => choose(run.id, event.target.checked)})),
    columns.map((column, i) => h(i ? "td" : "th", {scope: i ? null : "row",
      class: column.cell || (column.numeric && "number")}, column.show ? column.show(run) : column.value(run) || MISSING))));
  fill(byId("bar"), h("p", {class: "note", "aria-live": "polite", id: "count"}, runs.length === site.runs.length
    ? plural(runs.length, "run") : `${runs.length.toLocaleString("en-US")} of ${plural(site.runs.length, "run")}`),
    pager(page, pages, size), columnMenu(columns));
  if (!runs.length) {
    fill(byId("table"), h("p", {class: "empty"}, site.runs.length ? "No run passes these filters."
      : `There are no runs below ${site.root} yet. python train.py makes one.`));
    return;
  }
  const caption = `Numbers are those of the ${model.stage === "test" ? "test" : "validation"} data.`;
  fill(byId("table"), h("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "Runs"},
    h("table", {}, h("caption", {}, caption),
      h("thead", {}, h("tr", {}, h("th", {scope: "col", class: "check"}, h("span", {class: "hidden"}, "Choose")), head)),
      h("tbody", {}, body))));
}

function pager(page, pages, size) {
  const go = (to, text, name) => h("button", {type: "button", disabled: to < 1 || to > pages || to === page,
    "aria-label": name, "data-focus": name, onclick: () => change({page: String(to)}, false)}, text);
  return h("div", {class: "pages"}, go(1, "«", "First page"), go(page - 1, "‹", "Previous page"),
    h("span", {}, `${page} / ${pages}`), go(page + 1, "›", "Next page"), go(pages, "»", "Last page"),
    h("label", {}, h("span", {class: "hidden"}, "Rows of a page"), h("select", {"data-focus": "size",
      onchange: (event) => change({size: event.target.value})}, ["25", "50", "100", "200"].map((value) =>
      h("option", {value, selected: Number(value) === size}, `${value} rows`)))));
}

function columnMenu(columns) {
  const shown = new Set(columns.map((column) => column.key));
  const toggle = (key, on) => {
    if (on) shown.add(key); else shown.delete(key);
    change({columns: [...shown].join(",")}, false);
  };
  const open = byId("columns")?.open;
  return h("details", {class: "menu", id: "columns", open}, h("summary", {}, "Columns"), h("div", {},
    allColumns().slice(1).map((column) => h("label", {}, h("input", {type: "checkbox", checked: shown.has(column.key),
      "data-focus": `column-${column.key}`, onchange: (event) => toggle(column.key, event.target.checked)}), column.title)),
    h("button", {type: "button", onclick: () => change({columns: ""}, false)}, "As at first")));
}

"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const hidden = new Set();
  const state = { group: 0, cell: 0, log: true, x: 0, by: -1, policy: 0 };
  const MOST_PANELS = 12;

  const group = () => data.groups[state.group];
  const cell = () => group().cells[state.cell];
  const shown = (p) => !hidden.has(p);
  const digits = Charts.digits;

  // A policy's curve through some cells, or through the checkpoints of one.
  const curve = (p, x, y, low, high, text) => ({ ...data.policies[p], x, y, low, high, text });
  const visible = () => group().policies.map((p, i) => [p, i]).filter(([p]) => shown(p));

  // The cells that differ from the chosen one in parameter `x` alone, and, with `by`, in that one too.
  function slice(x, by) {
    const g = group(), at = cell().at;
    const fits = g.cells.filter((c) => c.at.every((place, k) => k === x || k === by || place === at[k]));
    return fits.sort((a, b) => a.at[x] - b.at[x]);
  }

  function panel(host, cells, domain, height) {
    const g = group(), axis = g.parameters[state.x];
    const numeric = axis && axis.numbers !== null;
    const places = cells.map((c) => (axis ? (numeric ? axis.numbers[c.at[state.x]] : c.at[state.x]) : 0));
    const names = cells.map((c) => c.name);
    const series = visible().map(([p, i]) => curve(p, places, cells.map((c) => c.loss[i]), cells.map((c) => c.low[i]),
      cells.map((c) => c.high[i]), names));
    const texts = axis ? axis.texts : [g.name];
    const ticks = numeric ? (axis.ticks ? axis.ticks.at.map((value, i) => ({ value, text: axis.ticks.text[i] })) : null)
      : texts.map((text, value) => ({ value, text }));
    Charts.lines(host, {
      series, height,
      x: { title: axis ? axis.label : "system", ticks, points: !numeric || cells.length < 2, log: numeric && axis.log },
      y: { title: "regret per round", log: state.log, domain },
      mark: numeric ? axis.numbers[cell().at[state.x]] : null,
      pick: (i) => chooseCell(g.cells.indexOf(cells[i])),
    });
  }

  function drawSweep() {
    const g = group(), host = byId("sweep");
    const all = state.by < 0 ? slice(state.x, -1) : slice(state.x, state.by);
    const each = (take) => all.flatMap((c) => visible().flatMap(([, i]) => take(c, i)));
    const domain = Charts.range(each((c, i) => [c.loss[i]]), state.log, each((c, i) => [c.low[i], c.high[i]]));
    let parts = [[null, all]];
    if (state.by >= 0) {
      const texts = g.parameters[state.by].texts;
      const step = Math.ceil(texts.length / MOST_PANELS);
      parts = texts.map((text, j) => [`${g.parameters[state.by].label} = ${text}`, all.filter((c) => c.at[state.by] === j)])
        .filter(([, cells], j) => cells.length && j % step === 0);
    }
    host.classList.toggle("panels", parts.length > 1);
    host.replaceChildren(...parts.map(([name]) => {
      const figure = document.createElement("div");
      figure.className = "panel";
      if (name) {
        const title = document.createElement("h4");
        title.textContent = name;
        figure.append(title);
      }
      const chart = document.createElement("div");
      chart.className = "drawn";
      figure.append(chart);
      return figure;
    }));
    [...host.querySelectorAll(".drawn")].forEach((chart, i) => panel(chart, parts[i][1], domain, parts.length > 1 ? 280 : 420));
  }

  // White at 1, ever darker up to the largest; below 1 blue.
  function ratioColour(ratio, largest) {
    const t = Math.max(-1, Math.min(1, Math.log(ratio) / Math.log(largest)));
    const end = t < 0 ? [0, 96, 160] : [150, 40, 0];
    const part = Math.abs(t);
    return `rgb(${end.map((c) => Math.round(255 + (c - 255) * part)).join(",")})`;
  }

  function drawHeat() {
    const g = group(), possible = g.parameters.length > 1 && state.by >= 0;
    byId("heat").hidden = !possible;
    if (!possible) return;
    const cells = slice(state.x, state.by);
    const [x, y] = [g.parameters[state.x], g.parameters[state.by]];
    const axes = { x: { title: x.label, texts: x.texts }, y: { title: y.label, texts: y.texts } };
    const at = (c) => ({ i: c.at[state.x], j: c.at[state.by] });
    const mark = cells.indexOf(cell());
    const pick = (place) => chooseCell(g.cells.indexOf(cells[place]));
    const players = visible().filter(([p]) => data.policies[p].learner);
    Charts.heat(byId("best"), { ...axes, mark, pick, cells: cells.map((c) => {
      if (!players.length) return { ...at(c), fill: "#fff", lines: [c.name, "no learner is switched on"] };
      const [p, i] = players.reduce((a, b) => (c.loss[b[1]] < c.loss[a[1]] ? b : a));
      const rivals = players.filter(([, k]) => k !== i && c.rank[k] === c.rank[i]).length;
      const sure = rivals ? `not told apart from ${rivals} other${rivals > 1 ? "s" : ""}` : "better than all others";
      return { ...at(c), fill: data.policies[p].colour, faint: rivals > 0, lines: [c.name, data.policies[p].name, sure] };
    }) });
    const used = new Set(cells.flatMap((c) => (players.length ? [players.reduce((a, b) => (c.loss[b[1]] < c.loss[a[1]] ? b : a))[0]] : [])));
    byId("best-key").replaceChildren(...[...used].map((p) => {
      const entry = document.createElement("span");
      const patch = document.createElement("i");
      patch.style.background = data.policies[p].colour;
      entry.append(patch, data.policies[p].name);
      return entry;
    }));
    const chosen = g.policies[state.policy];
    const ratioOf = (c) => (c.reference > 0 ? c.loss[state.policy] / c.reference : null);
    const largest = Math.max(3, ...cells.map(ratioOf));
    Charts.heat(byId("ratio"), { ...axes, mark, pick, cells: cells.map((c) => {
      const ratio = ratioOf(c);
      const text = ratio === null ? "–" : ratio.toPrecision(ratio < 10 ? 2 : 3);
      return { ...at(c), fill: ratio === null ? "#fff" : ratioColour(ratio, largest), text,
        ink: ratio > Math.sqrt(largest) ? "#fff" : "#1a1a1a",
        lines: [c.name, data.policies[chosen].name, `${text} times ${g.reference}`] };
    }) });
    byId("ratio-of").textContent = g.reference;
  }

  function drawTime() {
    const c = cell();
    const text = data.checkpoints.map((t) => `up to round ${t.toLocaleString("en")}`);
    const series = visible().map(([p, i]) => curve(p, data.checkpoints, c.history[i], c.historyLow[i], c.historyHigh[i], text));
    Charts.lines(byId("time"), { series, x: { title: "rounds played", ticks: null }, height: 400,
      y: { title: "regret per round", log: state.log } });
    byId("time-title").textContent = `Regret over time, ${c.name}`;
  }

  function drawTable() {
    const c = cell(), heads = ["policy", "regret per round", "95 % interval", "rank", "runs"];
    const rows = group().policies.map((p, i) => ({ name: data.policies[p].name, i }))
      .sort((a, b) => c.rank[a.i] - c.rank[b.i] || c.loss[a.i] - c.loss[b.i]);
    byId("cell-rows").replaceChildren(...rows.map(({ name, i }) => {
      const row = document.createElement("tr");
      const interval = c.low[i] === null ? "–" : `${digits(c.low[i])} to ${digits(c.high[i])}`;
      [name, digits(c.loss[i]), interval, c.rank[i], c.runs].forEach((text, k) => {
        const entry = document.createElement("td");
        entry.textContent = text;
        entry.className = k ? "n" : "";
        entry.dataset.label = heads[k];
        row.append(entry);
      });
      return row;
    }));
    byId("table-title").textContent = `All policies, ${c.name}`;
  }

  function fill(select, names, chosen, values) {
    select.replaceChildren(...names.map((name, i) => {
      const value = values ? values[i] : i;
      return new Option(name, value, false, value === chosen);
    }));
  }

  const show = (id, on) => { byId(id).hidden = !on; };

  function drawControls() {
    const g = group(), used = new Set(g.policies);
    for (const chip of document.querySelectorAll(".chip")) chip.hidden = !used.has(Number(chip.dataset.policy));
    show("axes", g.parameters.length > 1);
    fill(byId("x"), g.parameters.map((p) => p.label), state.x);
    const others = g.parameters.map((_, k) => k).filter((k) => k !== state.x);
    fill(byId("by"), ["– (only the chosen system's)", ...others.map((k) => g.parameters[k].label)], state.by, [-1, ...others]);
    fill(byId("policy"), g.policies.map((p) => data.policies[p].name), state.policy);
  }

  function draw() { drawControls(); drawCharts(); }
  function drawCharts() { drawSweep(); drawHeat(); drawTime(); drawTable(); }

  function chooseGroup(place) {
    state.group = place;
    const g = group();
    state.cell = Math.floor(g.cells.length / 2);
    [state.x, state.by] = g.axes;
    state.policy = Math.max(0, g.policies.findIndex((p) => data.policies[p].learner));
    fill(byId("cell"), g.cells.map((c) => c.name), state.cell);
    draw();
  }

  function chooseCell(place) {
    state.cell = place;
    byId("cell").value = String(place);
    drawCharts();
  }

  function chooseX(place) {
    if (state.by === place) state.by = state.x;
    state.x = place;
    draw();
  }

  function toggle(p, on) {
    if (on) hidden.delete(p); else hidden.add(p);
  }

  function start() {
    fill(byId("group"), data.groups.map((g) => g.name), 0);
    show("group-label", data.groups.length > 1);
    const on = (id, what) => byId(id).addEventListener("change", (event) => what(event.target));
    on("group", (t) => chooseGroup(Number(t.value)));
    on("cell", (t) => chooseCell(Number(t.value)));
    on("x", (t) => chooseX(Number(t.value)));
    on("by", (t) => { state.by = Number(t.value); draw(); });
    on("policy", (t) => { state.policy = Number(t.value); drawHeat(); });
    on("log", (t) => { state.log = t.checked; drawCharts(); });
    state.log = data.log;
    byId("log").checked = data.log;
    const chips = [...document.querySelectorAll(".chip")];
    for (const chip of chips) {
      const box = chip.querySelector("input");
      box.checked = true;
      box.addEventListener("change", () => { toggle(Number(chip.dataset.policy), box.checked); drawCharts(); });
    }
    for (const [id, checked] of [["all", true], ["none", false]]) {
      byId(id).addEventListener("click", () => {
        for (const chip of chips.filter((one) => !one.hidden)) {
          chip.querySelector("input").checked = checked;
          toggle(Number(chip.dataset.policy), checked);
        }
        drawCharts();
      });
    }
    chooseGroup(0);
    let width = window.innerWidth, waiting = 0;
    window.addEventListener("resize", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => { if (window.innerWidth !== width) { width = window.innerWidth; drawCharts(); } }, 150);
    });
    document.body.dataset.ready = "yes";
  }

  start();
})();

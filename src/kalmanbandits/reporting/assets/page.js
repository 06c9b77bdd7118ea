"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const hidden = new Set();
  const state = { group: 0, cell: 0, log: true };
  const config = { responsive: true, displaylogo: false, displayModeBar: false };

  const group = () => data.groups[state.group];
  const cell = () => group().cells[state.cell];
  const shown = (p) => !hidden.has(data.policies[p].name);
  const digits = (x) => (x === null ? "–" : Math.abs(x) >= 100 ? x.toFixed(1) : x.toPrecision(3));
  const narrow = () => window.innerWidth < 720;

  function layout(xTitle, extra) {
    return {
      margin: { l: 60, r: 14, t: 12, b: 52 }, showlegend: false, hovermode: "closest",
      paper_bgcolor: "#fff", plot_bgcolor: "#fff", font: { family: "system-ui, sans-serif", size: 13, color: "#1a1a1a" },
      xaxis: { title: { text: xTitle }, gridcolor: "#e6e6e6", zeroline: false, fixedrange: narrow(), ...extra },
      yaxis: { title: { text: "regret per round" }, gridcolor: "#e6e6e6", zeroline: false, fixedrange: narrow(),
        type: state.log ? "log" : "linear", rangemode: state.log ? "normal" : "tozero",
        ...(state.log ? { dtick: 1, exponentformat: "none" } : {}) },
    };
  }

  // A policy's curve and its 95 % band, which are switched on and off together.
  function curve(p, x, value, low, high, text, lines) {
    const look = data.policies[p];
    const visible = shown(p);
    const keep = x.map((_, i) => i).filter((i) => low[i] !== null && (!state.log || low[i] > 0));
    const band = {
      x: [...keep.map((i) => x[i]), ...keep.map((i) => x[i]).reverse()],
      y: [...keep.map((i) => high[i]), ...keep.map((i) => low[i]).reverse()],
      fill: "toself", fillcolor: look.colour + "2b", line: { width: 0 }, mode: "lines", hoverinfo: "skip",
      type: "scatter", name: look.name, visible, meta: "band",
    };
    const line = {
      x, y: value, type: "scatter", mode: lines ? (x.length > 40 ? "lines" : "lines+markers") : "markers",
      name: look.name, visible, meta: "line",
      line: { color: look.colour, dash: look.dash, width: 2.2 },
      marker: { color: look.colour, symbol: look.marker, size: lines ? 6 : 9 },
      text: value.map((v, i) => `<b>${look.name}</b><br>${text[i]}<br>${digits(v)} [${digits(low[i])}, ${digits(high[i])}]`),
      hovertemplate: "%{text}<extra></extra>",
    };
    if (!lines) {
      line.error_y = { type: "data", symmetric: false, color: look.colour,
        array: value.map((v, i) => (high[i] === null ? 0 : high[i] - v)),
        arrayminus: value.map((v, i) => (low[i] === null ? 0 : v - low[i])) };
    }
    return lines ? [band, line] : [line];
  }

  function drawSweep() {
    const g = group();
    const lines = g.x !== null;
    const x = lines ? g.x : g.cells.map((c) => c.name);
    const names = g.cells.map((c) => c.name);
    const traces = g.policies.flatMap((p, i) => curve(p, x, g.cells.map((c) => c.loss[i]),
      g.cells.map((c) => c.low[i]), g.cells.map((c) => c.high[i]), names, lines));
    const extra = g.ticks ? { tickvals: g.ticks.at, ticktext: g.ticks.text } : {};
    const shapes = lines && g.cells.length > 1
      ? [{ type: "line", yref: "paper", x0: g.x[state.cell], x1: g.x[state.cell], y0: 0, y1: 1,
        line: { color: "#8a8a8a", width: 1, dash: "dot" } }] : [];
    Plotly.react("sweep", traces, { ...layout(g.parameter || "system", extra), shapes }, config);
  }

  function drawTime() {
    const c = cell();
    const text = data.checkpoints.map((t) => `up to round ${t.toLocaleString("en")}`);
    const traces = group().policies.flatMap((p, i) =>
      curve(p, data.checkpoints, c.history[i], c.historyLow[i], c.historyHigh[i], text, true));
    Plotly.react("time", traces, layout("rounds played", { tickformat: ",d" }), config);
    byId("time-title").textContent = `Regret over time, ${c.name}`;
  }

  function drawTable() {
    const c = cell();
    const rows = group().policies.map((p, i) => ({ name: data.policies[p].name, i }))
      .sort((a, b) => c.rank[a.i] - c.rank[b.i] || c.loss[a.i] - c.loss[b.i]);
    byId("cell-rows").replaceChildren(...rows.map(({ name, i }) => {
      const row = document.createElement("tr");
      const interval = c.low[i] === null ? "–" : `${digits(c.low[i])} to ${digits(c.high[i])}`;
      for (const [text, kind] of [[name, ""], [digits(c.loss[i]), "n"], [interval, "n"], [c.rank[i], "n"], [c.runs, "n"]]) {
        const entry = document.createElement("td");
        entry.textContent = text;
        entry.className = kind;
        row.append(entry);
      }
      return row;
    }));
    byId("table-title").textContent = `All policies, ${c.name}`;
  }

  function fill(select, names, chosen) {
    select.replaceChildren(...names.map((name, i) => new Option(name, i, false, i === chosen)));
  }

  function drawChips() {
    const used = new Set(group().policies);
    for (const chip of document.querySelectorAll(".chip")) chip.hidden = !used.has(Number(chip.dataset.policy));
    for (const chip of document.querySelectorAll(".chip")) chip.style.display = chip.hidden ? "none" : "";
  }

  function draw() { drawChips(); drawSweep(); drawTime(); drawTable(); }

  function chooseGroup(place) {
    state.group = place;
    state.cell = Math.floor(group().cells.length / 2);
    fill(byId("cell"), group().cells.map((c) => c.name), state.cell);
    draw();
  }

  function chooseCell(place) {
    state.cell = place;
    byId("cell").value = String(place);
    drawSweep(); drawTime(); drawTable();
  }

  // A policy keeps its place among the traces; only its visibility changes.
  function toggle(name, on) {
    if (on) hidden.delete(name); else hidden.add(name);
    for (const chart of ["sweep", "time"]) {
      const places = byId(chart).data.flatMap((trace, i) => (trace.name === name ? [i] : []));
      if (places.length) Plotly.restyle(chart, { visible: on }, places);
    }
  }

  function start() {
    fill(byId("group"), data.groups.map((g) => g.name), 0);
    byId("group-label").hidden = data.groups.length < 2;
    byId("group-label").style.display = data.groups.length < 2 ? "none" : "";
    byId("group").addEventListener("change", (event) => chooseGroup(Number(event.target.value)));
    byId("cell").addEventListener("change", (event) => chooseCell(Number(event.target.value)));
    byId("log").addEventListener("change", (event) => { state.log = event.target.checked; draw(); });
    state.log = data.log;
    byId("log").checked = data.log;
    for (const chip of document.querySelectorAll(".chip input")) {
      chip.checked = true;
      chip.addEventListener("change", () => toggle(chip.value, chip.checked));
    }
    for (const [id, on] of [["all", true], ["none", false]]) {
      byId(id).addEventListener("click", () => {
        for (const chip of document.querySelectorAll(".chip:not([hidden]) input")) {
          chip.checked = on;
          toggle(chip.value, on);
        }
      });
    }
    chooseGroup(0);
    byId("sweep").on("plotly_click", (event) => chooseCell(event.points[0].pointIndex));
    document.body.dataset.ready = "yes";
  }

  start();
})();

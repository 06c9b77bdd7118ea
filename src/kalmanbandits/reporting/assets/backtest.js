"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const x = { title: data.axis, ticks: data.ticks };
  const curve = (look, at, y, texts, width) => ({
    ...look, x: at, y, low: y.map(() => null), high: y.map(() => null), text: texts, width,
  });
  function tight(series) {
    const used = series.flatMap((one) => one.y).filter((value) => value !== null);
    const low = Math.min(...used), high = Math.max(...used), room = 0.05 * (high - low || Math.abs(high) || 1);
    return [low - room, high + room];
  }

  const switches = [...document.querySelectorAll(".chip input")];
  function drawTime() {
    const shown = data.policies.map((look, p) => [look, p]).filter(([, p]) => switches[p].checked);
    const series = shown.map(([look, p]) =>
      curve(look, data.at, data.gains[p], data.when, look.name === data.named ? 3.6 : 1.7));
    Charts.lines(byId("time"), { series, x, y: { title: "summed gain over the best fixed arm",
      domain: series.length ? tight([...series, { y: [0] }]) : undefined } });
  }

  // From a pale to a dark blue.
  const shade = (share) => `rgb(${[[244, 8], [246, 81], [249, 156]].map(([a, b]) => Math.round(a + share * (b - a))).join(",")})`;
  const short = (text) => (text.length > 16 ? `${text.slice(0, 15)}…` : text);
  function drawChoices() {
    const series = data.arms.map((look, a) => curve(look, data.from, data.series[a], data.since, 1.4));
    Charts.lines(byId("series"), { series, x, y: { title: data.unit, domain: tight(series) }, height: 300 });
    const k = data.arms.length, place = byId("who").selectedIndex;
    const cells = data.shares[place].flatMap((row, a) => row.map((share, i) => ({
      i, j: k - 1 - a, fill: shade(share), lines: [data.arms[a].name, data.since[i], `${Math.round(100 * share)} % of the choices`],
    })));
    Charts.heat(byId("strip"), { cells, high: Math.max(14, Math.min(30, 240 / k)), x: { title: data.axis, texts: data.since },
      y: { title: "", texts: data.arms.map((look) => short(look.name)).reverse() } });
  }

  function drawDots() {
    if (!data.predicted.length) return;
    Charts.dots(byId("scatter"), { x: { title: "predicted", values: data.predicted },
      y: { title: "came", values: data.came }, colour: "#0072B2", line: "#D55E00" });
  }

  function draw() {
    drawTime();
    drawChoices();
    drawDots();
  }
  for (const chip of switches) {
    chip.checked = true;
    chip.addEventListener("change", drawTime);
  }
  for (const [id, on] of [["all", true], ["none", false]]) {
    byId(id).addEventListener("click", () => {
      for (const chip of switches) chip.checked = on;
      drawTime();
    });
  }
  byId("who").addEventListener("change", drawChoices);
  let width = 0;
  new ResizeObserver(() => {
    if (byId("time").clientWidth !== width) {
      width = byId("time").clientWidth;
      draw();
    }
  }).observe(byId("time"));
  draw();
  document.body.dataset.ready = "yes";
})();

"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const narrow = window.innerWidth < 720;
  const digits = (x) => (Math.abs(x) >= 100 ? x.toFixed(1) : x.toPrecision(3));
  const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const short = (text) => plain(text.length > 18 ? `${text.slice(0, 17)}…` : text);
  const options = { responsive: true, displaylogo: false, displayModeBar: false };
  const base = {
    margin: { l: 70, r: 14, t: 12, b: 52 }, showlegend: false, hovermode: "closest",
    paper_bgcolor: "#fff", plot_bgcolor: "#fff", font: { family: "system-ui, sans-serif", size: 13, color: "#1a1a1a" },
  };
  const axis = (text) => ({ title: { text: plain(text) }, gridcolor: "#e6e6e6", zeroline: false, fixedrange: narrow });

  const traces = data.policies.map((look, p) => ({
    x: data.at, y: data.gains[p], type: "scatter", mode: "lines", name: plain(look.name), meta: "line",
    line: { color: look.colour, dash: look.dash, width: look.name === data.named ? 3.4 : 1.8 },
    text: data.gains[p].map((gain, i) =>
      `<b>${plain(look.name)}</b><br>up to ${data.at[i].toLocaleString("en")}<br>${digits(gain)}`),
    hovertemplate: "%{text}<extra></extra>",
  }));
  Plotly.react("time", traces, {
    ...base, xaxis: axis(data.axis),
    yaxis: { ...axis("summed gain over the best fixed arm"), zeroline: true, zerolinecolor: "#1a1a1a" },
  }, options);

  function choices(place) {
    const lines = data.arms.map((look, a) => ({
      x: data.stretches, y: data.series[a], type: "scatter", mode: "lines", name: plain(look.name), yaxis: "y2",
      line: { color: look.colour, dash: look.dash, width: 1.4 },
      hovertemplate: `<b>${plain(look.name)}</b><br>%{x}<br>%{y:.4g}<extra></extra>`,
    }));
    const strip = {
      x: data.stretches, y: data.arms.map((_, a) => a), z: data.shares[place], type: "heatmap", zmin: 0, zmax: 1,
      colorscale: [[0, "#f4f6f9"], [1, "#08519c"]], showscale: false, ygap: 2,
      text: data.shares[place].map((row, a) => row.map((share) => `${plain(data.arms[a].name)}: ${Math.round(100 * share)} %`)),
      hovertemplate: "%{text}<br>%{x}<extra></extra>",
    };
    const names = data.arms.length <= 25;
    Plotly.react("series", [strip, ...lines], {
      ...base, margin: { ...base.margin, l: names ? 130 : 70 }, xaxis: { ...axis(data.axis), anchor: "y" },
      yaxis: { domain: [0, 0.42], autorange: "reversed", fixedrange: true, showgrid: false, ticks: "",
        showticklabels: names, tickvals: data.arms.map((_, a) => a), ticktext: data.arms.map((look) => short(look.name)) },
      yaxis2: { ...axis(""), domain: [0.48, 1], anchor: "x" },
    }, options);
  }
  const who = document.getElementById("who");
  who.addEventListener("change", () => choices(who.selectedIndex));
  choices(who.selectedIndex);

  if (data.predicted.length) {
    const both = data.predicted.concat(data.came);
    const ends = [Math.min(...both), Math.max(...both)];
    Plotly.react("scatter", [
      { x: data.predicted, y: data.came, type: "scatter", mode: "markers", marker: { color: "#0072B2", size: 5, opacity: 0.45 },
        hovertemplate: "predicted %{x:.4g}<br>came %{y:.4g}<extra></extra>" },
      { x: ends, y: ends, type: "scatter", mode: "lines", line: { color: "#D55E00", width: 1.5 }, hoverinfo: "skip" },
    ], { ...base, xaxis: axis("predicted"), yaxis: axis("came") }, options);
  }

  function toggle(chip) {
    const place = data.policies.findIndex((look) => look.name === chip.value);
    Plotly.restyle("time", { visible: chip.checked }, [place]);
  }

  const switches = [...document.querySelectorAll(".chip input")];
  for (const chip of switches) {
    chip.checked = true;
    chip.addEventListener("change", () => toggle(chip));
  }
  for (const [id, on] of [["all", true], ["none", false]]) {
    document.getElementById(id).addEventListener("click", () => {
      for (const chip of switches) {
        chip.checked = on;
        toggle(chip);
      }
    });
  }
  document.body.dataset.ready = "yes";
})();

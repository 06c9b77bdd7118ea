"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const narrow = window.innerWidth < 720;
  const digits = (x) => (Math.abs(x) >= 100 ? x.toFixed(1) : x.toPrecision(3));

  const traces = data.policies.map((look, p) => ({
    x: data.rounds, y: data.gains[p], type: "scatter", mode: "lines", name: look.name, meta: "line",
    line: { color: look.colour, dash: look.dash, width: 2.2 },
    text: data.gains[p].map((gain, i) =>
      `<b>${look.name}</b><br>up to round ${data.rounds[i].toLocaleString("en")}<br>${digits(gain)}`),
    hovertemplate: "%{text}<extra></extra>",
  }));
  Plotly.react("time", traces, {
    margin: { l: 70, r: 14, t: 12, b: 52 }, showlegend: false, hovermode: "closest",
    paper_bgcolor: "#fff", plot_bgcolor: "#fff", font: { family: "system-ui, sans-serif", size: 13, color: "#1a1a1a" },
    xaxis: { title: { text: "rounds played" }, gridcolor: "#e6e6e6", zeroline: false, fixedrange: narrow, tickformat: ",d" },
    yaxis: { title: { text: "summed gain over the best fixed arm" }, gridcolor: "#e6e6e6", zerolinecolor: "#1a1a1a",
      fixedrange: narrow },
  }, { responsive: true, displaylogo: false, displayModeBar: false });

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

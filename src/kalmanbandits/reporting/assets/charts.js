"use strict";
// Charts in SVG, drawn from data: curves with bands and markers, and grids of coloured cells. Texts are only ever
// set as text, never as HTML.
const Charts = (() => {
  const NS = document.createRange().createContextualFragment("<svg></svg>").firstChild.namespaceURI;
  const INK = "#1a1a1a", SOFT = "#5a5a5a", GRID = "#e6e6e6";

  function node(tag, attributes, parent, text) {
    const made = document.createElementNS(NS, tag);
    for (const [name, value] of Object.entries(attributes)) if (value !== "") made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  }

  const digits = (x) => (x === null || x === undefined ? "–" : Math.abs(x) >= 100 ? x.toFixed(1) : x.toPrecision(3));
  const plain = (x) => (Math.abs(x) >= 1e6 || (x !== 0 && Math.abs(x) < 1e-3) ? x.toExponential(0)
    : Number(x.toPrecision(6)).toLocaleString("en", { maximumFractionDigits: 6 }));

  function linearTicks(low, high, count) {
    const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((m) => m * power >= rough) * power;
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i += 1) found.push(i * step);
    return found;
  }

  function logTicks(low, high) {
    const found = [];
    const wide = high / low > 300;
    for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); p += 1) {
      for (const m of wide ? [1] : [1, 2, 5]) {
        const at = m * 10 ** p;
        if (at >= low * 0.999 && at <= high * 1.001) found.push(at);
      }
    }
    return found.length > 1 ? found : linearTicks(low, high, 4).filter((at) => at > 0);
  }

  // From data to pixels. A domain of one point gets some room.
  function scale(low, high, from, to, log) {
    const f = log ? Math.log : (x) => x;
    const a = f(low), b = f(high);
    return (x) => (b > a ? from + ((f(x) - a) / (b - a)) * (to - from) : (from + to) / 2);
  }

  // What the values and their intervals need; a log scale does not follow an interval down to 0.
  function range(values, log, ends = []) {
    let used = values.filter((v) => v !== null && Number.isFinite(v) && (!log || v > 0));
    const floor = log ? Math.min(...used) / 3 : -Infinity;
    used = used.concat(ends.filter((v) => v !== null && Number.isFinite(v) && v >= floor));
    if (!used.length) return log ? [0.1, 1] : [0, 1];
    let low = Math.min(...used), high = Math.max(...used);
    if (log) return [low / 1.15, Math.max(high, low * 1.05) * 1.15];
    const room = 0.05 * (high - low || Math.abs(high) || 1);
    return [low >= 0 ? 0 : low - room, high + room];
  }

  function fresh(host, width, height, label) {
    host.querySelector("svg")?.remove();
    const svg = node("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
    host.prepend(svg);
    let tip = host.querySelector(".tip");
    if (!tip) {
      tip = document.createElement("div");
      tip.className = "tip";
      tip.hidden = true;
      host.append(tip);
    }
    return [svg, tip];
  }

  function showTip(host, tip, x, y, lines) {
    tip.replaceChildren(...lines.map((line, i) => {
      const part = document.createElement(i ? "span" : "b");
      part.textContent = line;
      return part;
    }));
    tip.hidden = false;
    tip.style.left = `${Math.max(0, Math.min(x + 12, host.clientWidth - tip.offsetWidth - 2))}px`;
    tip.style.top = `${Math.max(0, y - tip.offsetHeight - 10)}px`;
  }

  function labels(svg, box, xTitle, yTitle) {
    node("text", { x: (box.left + box.right) / 2, y: box.bottom + 38, "text-anchor": "middle", fill: INK, "font-size": 13 },
      svg, xTitle);
    const middle = (box.top + box.bottom) / 2;
    node("text", { x: 14, y: middle, "text-anchor": "middle", fill: INK, "font-size": 13,
      transform: `rotate(-90 14 ${middle})` }, svg, yTitle);
  }

  // Ticks that would touch each other are left out.
  function xTicks(svg, box, ticks, at) {
    let free = -Infinity;
    for (const { value, text } of ticks) {
      const x = at(value), half = 3.6 * text.length + 4;
      if (x < box.left - 1 || x > box.right + 1) continue;
      node("line", { x1: x, x2: x, y1: box.top, y2: box.bottom, stroke: GRID }, svg);
      if (x - half < free) continue;
      free = x + half;
      node("text", { x, y: box.bottom + 18, "text-anchor": "middle", fill: SOFT, "font-size": 12, class: "xtick" }, svg, text);
    }
  }

  // spec: series [{name, colour, dash, marker, open, x, y, low, high, text}], x {title, ticks, log, points},
  // y {title, log, domain}, mark, pick(index), height
  function lines(host, spec) {
    const width = Math.max(240, host.clientWidth), height = spec.height || 400;
    const box = { left: 64, right: width - 12, top: 10, bottom: height - 48 };
    const [svg, tip] = fresh(host, width, height, `${spec.y.title} against ${spec.x.title}`);
    if (!spec.series.length) {
      node("text", { x: width / 2, y: height / 2, "text-anchor": "middle", fill: SOFT }, svg, "no policy is switched on");
      return;
    }
    const xs = spec.series.flatMap((s) => s.x);
    const points = spec.x.points;
    let [x0, x1] = [Math.min(...xs), Math.max(...xs)];
    if (points) [x0, x1] = [x0 - 0.5, x1 + 0.5];
    const [y0, y1] = spec.y.domain || range(spec.series.flatMap((s) => s.y), spec.y.log,
      spec.series.flatMap((s) => [...s.low, ...s.high]));
    const X = scale(x0, x1, box.left + (points ? 0 : 8), box.right - (points ? 0 : 8), spec.x.log);
    const Y = scale(y0, y1, box.bottom, box.top, spec.y.log);
    const inside = (v) => v !== null && (!spec.y.log || v > 0);
    const y = (v) => Math.min(box.bottom, Math.max(box.top, Y(v)));
    const own = (spec.x.log ? logTicks(x0, x1) : linearTicks(x0, x1, width / 110)).map((value) => ({ value, text: plain(value) }));
    xTicks(svg, box, spec.x.ticks || own, X);
    for (const at of spec.y.log ? logTicks(y0, y1) : linearTicks(y0, y1, height / 70)) {
      node("line", { x1: box.left, x2: box.right, y1: Y(at), y2: Y(at), stroke: GRID }, svg);
      node("text", { x: box.left - 8, y: Y(at) + 4, "text-anchor": "end", fill: SOFT, "font-size": 12, class: "ytick" },
        svg, plain(at));
    }
    labels(svg, box, spec.x.title, spec.y.title);
    if (spec.mark !== undefined && spec.mark !== null && !points) {
      node("line", { x1: X(spec.mark), x2: X(spec.mark), y1: box.top, y2: box.bottom, stroke: "#8a8a8a", "stroke-dasharray": "2 3" }, svg);
    }
    const spots = [];
    spec.series.forEach((s, place) => {
      const g = node("g", { class: "curve", "data-name": s.name }, svg);
      const shift = points ? 0.7 * ((place + 0.5) / spec.series.length - 0.5) : 0;
      const keep = s.x.map((_, i) => i).filter((i) => inside(s.y[i]));
      const banded = keep.filter((i) => inside(s.low[i]) && inside(s.high[i]));
      if (!points && banded.length > 1) {
        const edge = [...banded.map((i) => [s.x[i], s.high[i]]), ...banded.reverse().map((i) => [s.x[i], s.low[i]])];
        node("polygon", { points: edge.map(([a, b]) => `${X(a).toFixed(1)},${y(b).toFixed(1)}`).join(" "),
          fill: s.colour, "fill-opacity": 0.15 * Math.min(1, 8 / spec.series.length) }, g);
      }
      if (!points) {
        // What is missing breaks the line; a value that stands alone is a dot.
        const d = keep.map((i, n) => {
          const at = `${X(s.x[i]).toFixed(1)},${y(s.y[i]).toFixed(1)}`;
          if (n > 0 && keep[n - 1] === i - 1) return `L${at}`;
          return keep[n + 1] === i + 1 ? `M${at}` : `M${at}h1`;
        }).join("");
        node("path", { d, class: "line", fill: "none", stroke: s.colour, "stroke-width": s.width || 2,
          "stroke-dasharray": s.dash, "stroke-linejoin": "round" }, g);
      }
      const every = Math.max(1, Math.ceil(keep.length / (width / 45)));
      keep.forEach((i, n) => {
        const at = [X(s.x[i] + shift), y(s.y[i])];
        if (points && banded.includes(i)) {
          node("line", { x1: at[0], x2: at[0], y1: y(s.low[i]), y2: y(s.high[i]), stroke: s.colour, "stroke-width": 2 }, g);
        }
        if ((n + place) % every === 0) {
          node("path", { d: s.marker, transform: `translate(${at[0].toFixed(1)} ${at[1].toFixed(1)}) scale(${points ? 1.25 : 1})`,
            fill: s.open ? "none" : s.colour, stroke: s.colour, "stroke-width": s.open ? 1.8 : 0.5 }, g);
        }
        const ends = inside(s.low[i]) ? ` [${digits(s.low[i])}, ${digits(s.high[i])}]` : "";
        spots.push({ at, i, lines: [s.name, s.text[i], digits(s.y[i]) + ends] });
      });
    });
    follow(host, svg, tip, spots, 40, spec.pick);
  }

  // A tip at the nearest spot, and a click on it.
  function follow(host, svg, tip, spots, reach, pick) {
    let found = null;
    svg.addEventListener("pointermove", (event) => {
      const corner = svg.getBoundingClientRect();
      const x = event.clientX - corner.left, y = event.clientY - corner.top;
      found = null;
      let best = reach;
      for (const spot of spots) {
        const away = Math.hypot(spot.at[0] - x, spot.at[1] - y);
        if (away < best) [best, found] = [away, spot];
      }
      if (found) showTip(host, tip, found.at[0], found.at[1], found.lines); else tip.hidden = true;
    });
    svg.addEventListener("pointerleave", () => { tip.hidden = true; });
    if (pick) svg.addEventListener("click", () => { if (found) pick(found.i); });
  }

  // spec: x {title, texts}, y {title, texts}, cells [{i, j, fill, faint, text, ink, lines}], pick(place), mark, high
  function heat(host, spec) {
    const width = Math.max(240, host.clientWidth);
    const nx = spec.x.texts.length, ny = spec.y.texts.length;
    const longest = Math.max(...spec.y.texts.map((text) => text.length));
    const box = { left: 34 + 7 * Math.min(14, longest), right: width - 12, top: 6 };
    const high = spec.high || Math.max(14, Math.min(36, (box.right - box.left) / nx, 420 / ny));
    box.bottom = box.top + high * ny;
    const [svg, tip] = fresh(host, width, box.bottom + 48, `${spec.x.title} by ${spec.y.title}`);
    const wide = (box.right - box.left) / nx;
    xTicks(svg, { ...box, top: box.bottom }, spec.x.texts.map((text, value) => ({ value, text })),
      (i) => box.left + wide * (i + 0.5));
    let free = Infinity;
    spec.y.texts.forEach((text, j) => {
      const at = box.bottom - high * (j + 0.5);
      if (at > free) return;
      free = at - 13;
      node("text", { x: box.left - 8, y: at + 4, "text-anchor": "end", fill: SOFT, "font-size": 12 }, svg, text);
    });
    labels(svg, box, spec.x.title, spec.y.title);
    const written = high >= 14 && spec.cells.every((cell) => wide > 7 * (cell.text || "").length + 4);  // all or none
    const spots = spec.cells.map((cell, place) => {
      const x = box.left + wide * cell.i, y = box.bottom - high * (cell.j + 1);
      node("rect", { x: x + 0.5, y: y + 0.5, width: Math.max(1, wide - 1), height: high - 1, fill: cell.fill, class: "heat",
        "fill-opacity": cell.faint ? 0.45 : 1, stroke: place === spec.mark ? INK : "", "stroke-width": 2 }, svg);
      if (cell.text && written) {
        node("text", { x: x + wide / 2, y: y + high / 2 + 4, "text-anchor": "middle", fill: cell.ink || INK, "font-size": 11 },
          svg, cell.text);
      }
      return { at: [x + wide / 2, y + high / 2], i: place, lines: cell.lines };
    });
    follow(host, svg, tip, spots, Math.hypot(wide, high) / 2 + 1, spec.pick);
  }

  // spec: x {title, values}, y {title, values}, colour, line: points, and the line on which both are equal
  function dots(host, spec) {
    const width = Math.max(240, host.clientWidth), height = spec.height || 400;
    const box = { left: 64, right: width - 12, top: 10, bottom: height - 48 };
    const [svg, tip] = fresh(host, width, height, `${spec.y.title} against ${spec.x.title}`);
    const both = [...spec.x.values, ...spec.y.values], room = 0.04 * (Math.max(...both) - Math.min(...both)) || 1;
    const low = Math.min(...both) - room, high = Math.max(...both) + room;
    const X = scale(low, high, box.left, box.right), Y = scale(low, high, box.bottom, box.top);
    xTicks(svg, box, linearTicks(low, high, width / 110).map((value) => ({ value, text: plain(value) })), X);
    for (const at of linearTicks(low, high, height / 70)) {
      node("line", { x1: box.left, x2: box.right, y1: Y(at), y2: Y(at), stroke: GRID }, svg);
      node("text", { x: box.left - 8, y: Y(at) + 4, "text-anchor": "end", fill: SOFT, "font-size": 12 }, svg, plain(at));
    }
    labels(svg, box, spec.x.title, spec.y.title);
    const spots = spec.x.values.map((value, i) => {
      const at = [X(value), Y(spec.y.values[i])];
      node("circle", { cx: at[0].toFixed(1), cy: at[1].toFixed(1), r: 2.6, fill: spec.colour, "fill-opacity": 0.45 }, svg);
      return { at, i, lines: [`${spec.x.title} ${digits(value)}`, `${spec.y.title} ${digits(spec.y.values[i])}`] };
    });
    node("line", { x1: X(low), y1: Y(low), x2: X(high), y2: Y(high), stroke: spec.line, "stroke-width": 1.5 }, svg);
    follow(host, svg, tip, spots, 20);
  }

  return { lines, heat, dots, digits, range };
})();

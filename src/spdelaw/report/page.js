"use strict";
(() => {
  const PALETTES = JSON.parse(document.getElementById("palettes").textContent);
  const root = document.documentElement;
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const views = [];

  const decode = (array) => {
    const bytes = Uint8Array.from(atob(array.bdata), (c) => c.charCodeAt(0));
    return { values: new Float32Array(bytes.buffer), shape: array.shape.split(",").map(Number) };
  };

  // array[i, j, ...]: what is left is a line, or a map as a list of lines.
  const pick = ({ values, shape }, index) => {
    const size = (axes) => axes.reduce((product, n) => product * n, 1);
    const rest = shape.slice(index.length);
    const start = index.reduce((sum, i, axis) => sum + i * size(shape.slice(axis + 1)), 0);
    const part = values.subarray(start, start + size(rest));
    if (rest.length < 2) return part;
    return Array.from({ length: rest[0] }, (_, r) => part.subarray(r * rest[1], (r + 1) * rest[1]));
  };

  const coloured = (value, palette) => {
    if (typeof value === "string") return value.startsWith("@") ? palette[value.slice(1)] ?? value : value;
    if (Array.isArray(value)) return value.map((entry) => coloured(entry, palette));
    if (ArrayBuffer.isView(value) || value === null || typeof value !== "object") return value;
    if ("bdata" in value) return value;
    return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, coloured(entry, palette)]));
  };

  const cursors = (view, palette) =>
    view.figure.cursors.flatMap((cursor) => {
      const at = cursor.values[cursor.control ? view.choice[cursor.control] : 0];
      return cursor.axes.map((n) => ({
        type: "line", xref: `x${n}`, yref: `y${n} domain`, x0: at, x1: at, y0: 0, y1: 1,
        line: { color: palette.cursor, width: 1.5, dash: "dot" },
      }));
    });

  // Maps are as high as their width asks for: in a narrow window they shrink, and all above them moves down.
  const PAGE = 1040;
  const squeeze = (figure, layout, data, width) => {
    const part = Math.min(1, width / PAGE);
    if (!figure.maps.length || part === 1) return figure.height;
    const { t, b } = layout.margin;
    const inner = figure.height - t - b;
    const lost = figure.maps.reduce((sum, [low, high]) => sum + (high - low) * (1 - part), 0);
    const at = (y) => {
      const gone = figure.maps.reduce((sum, [low, high]) =>
        sum + Math.min(Math.max(y * inner - low, 0), high - low) * (1 - part), 0);
      return (y * inner - gone) / (inner - lost);
    };
    const bar = (given) => {
      if (!given || given.y === undefined) return given;
      const [low, high] = [at(given.y - given.len / 2), at(given.y + given.len / 2)];
      return { ...given, y: (low + high) / 2, len: high - low };
    };
    for (const [name, axis] of Object.entries(layout)) {
      if (name.startsWith("yaxis") && axis.domain) axis.domain = axis.domain.map(at);
    }
    for (const note of layout.annotations ?? []) if (note.yref === "paper") note.y = at(note.y);
    if (layout.legend) layout.legend.y = at(layout.legend.y);
    data.forEach((trace, i) => {
      if (trace.colorbar) data[i] = { ...trace, colorbar: bar(trace.colorbar) };
      if (trace.marker?.colorbar) data[i] = { ...trace, marker: { ...trace.marker, colorbar: bar(trace.marker.colorbar) } };
    });
    return figure.height - lost;
  };

  // In a narrow window panels that stand side by side go one above the other, each with its title and colour bar.
  const NARROW = 560, STACK_GAP = 72, STACK_HEIGHT = 0.85, LEGEND_LINES = 46;
  const stack = (layout, data, height, width) => {
    const panels = Object.keys(layout).filter((key) => key.startsWith("xaxis")).map((key) => {
      const n = key.slice(5);
      return { n, x: layout[key], y: layout[`yaxis${n}`] };
    }).filter(({ y }) => y).map((panel) => ({ ...panel, left: (panel.x.domain ?? [0, 1])[0], at: panel.y.domain ?? [0, 1] }));
    const rows = [];
    for (const panel of panels) {
      const row = rows.find(({ top }) => Math.abs(top - panel.at[1]) < 1e-6);
      if (row) row.panels.push(panel);
      else rows.push({ top: panel.at[1], bottom: panel.at[0], panels: [panel] });
    }
    rows.sort((one, other) => other.top - one.top);
    // A legend between two rows has several lines in a narrow window.
    const below = (row) => row !== rows[0] && row.panels.some(({ y }) => layout.legend?.y > (y.domain ?? [0, 1])[1]);
    if (width >= NARROW || rows.every((row) => row.panels.length === 1 && !below(row))) return height;
    // Pixels from the top of each panel, old and new; gaps between rows stay.
    const inner = height - layout.margin.t - layout.margin.b;
    let depth = 0, above = 1;
    const placed = [];
    for (const row of rows) {
      depth += (above - row.top) * inner;
      if (below(row)) depth += LEGEND_LINES;
      const many = row.panels.length > 1;
      row.panels.sort((one, other) => one.left - other.left).forEach((panel, i) => {
        if (i > 0) depth += STACK_GAP;
        const high = (row.top - row.bottom) * inner * (many ? STACK_HEIGHT : 1);
        placed.push({ ...panel, row, many, first: i === 0, from: depth, to: depth + high });
        depth += high;
      });
      above = row.bottom;
    }
    const total = depth + above * inner;
    const share = (pixels) => 1 - pixels / total;
    const bars = data.some((trace) => trace.colorbar || trace.marker?.colorbar);
    for (const { n, x, y, row, many, from, to } of placed) {
      layout[`yaxis${n}`] = { ...y, domain: [share(to), share(from)] };
      if (!many) continue;
      layout[`xaxis${n}`] = { ...x, domain: [0, bars ? 0.88 : 1] };
      layout[`yaxis${n}`].showticklabels = row.panels[0].y.showticklabels ?? true;
    }
    // A title or legend keeps its distance in pixels from the top of its panel.
    const moved = (y, left) => {
      const row = rows.find(({ top }) => top <= y + 1e-6);
      if (!row) return y * inner / total;
      const panel = placed.findLast((p) => p.row === row && p.left <= left + 1e-6) ?? placed.find((p) => p.row === row);
      return share(panel.from) + (y - row.top) * inner / total;
    };
    layout.annotations = (layout.annotations ?? []).map((note) => note.xref !== "paper" ? note
      : { ...note, font: { ...note.font, size: 11 }, x: 0, y: moved(note.y, note.x) });
    if (layout.legend) layout.legend = { ...layout.legend, y: moved(layout.legend.y ?? 1, 0) };
    const bar = (given, trace) => {
      const panel = placed.find(({ n }) => `x${n}` === (trace.xaxis ?? "x"));
      const whole = given.len >= 0.9 && given.y === undefined;
      return { ...given, x: panel?.many === false ? given.x : 0.9, ...(whole || !panel ? {} : { y: (share(panel.from) + share(panel.to)) / 2, len: (panel.to - panel.from) / total }) };
    };
    data.forEach((trace, i) => {
      if (trace.colorbar) data[i] = { ...trace, colorbar: bar(trace.colorbar, trace) };
      if (trace.marker?.colorbar) data[i] = { ...trace, marker: { ...trace.marker, colorbar: bar(trace.marker.colorbar, trace) } };
    });
    return total + layout.margin.t + layout.margin.b;
  };

  const draw = (view) => {
    const palette = PALETTES[root.dataset.theme];
    const { figure, element, choice, arrays } = view;
    const data = figure.data.map((trace) => ({ ...trace }));
    for (const bind of figure.binds) {
      const value = pick(arrays[bind.array], bind.index.map((name) => choice[name]));
      const [outer, inner] = bind.attribute.split(".");
      const trace = data[bind.trace];
      // The one nested attribute is a list of colours: numbers on a scale, or that of what is missing.
      trace[outer] = inner === undefined ? value
        : { ...trace[outer], [inner]: Array.from(value, (v) => (Number.isNaN(v) ? "@missing" : v)) };
    }
    for (const swap of figure.swaps) {
      const value = swap.values[choice[swap.control]];
      const [outer, inner] = swap.attribute.split(".");
      const trace = data[swap.trace];
      trace[outer] = inner === undefined ? value : { ...trace[outer], [inner]: value };
    }
    const layout = coloured(figure.layout, palette);
    const width = element.clientWidth;
    layout.height = stack(layout, data, squeeze(figure, layout, data, width), width);
    layout.width = width;
    element.style.height = `${layout.height}px`;
    layout.shapes = [...(layout.shapes ?? []), ...cursors(view, palette)];
    // The buttons are named one by one: none of them may reach for a server.
    const settings = { displaylogo: false, plotlyServerURL: "",
      displayModeBar: width >= NARROW ? "hover" : false,
      modeBarButtons: [["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
      toImageButtonOptions: { format: "svg", filename: figure.name } };
    return Plotly.react(element, coloured(data, palette), layout, settings);
  };

  const control = (view, spec) => {
    const label = document.createElement("label");
    label.append(spec.name);
    const input = document.createElement(spec.kind === "select" ? "select" : "input");
    input.id = `${view.figure.name}-${spec.name}`;
    if (spec.kind === "select") {
      spec.labels.forEach((text, i) => input.add(new Option(text, i)));
      input.value = spec.start;
      input.addEventListener("change", () => { view.choice[spec.name] = Number(input.value); draw(view); });
      label.append(input);
      return label;
    }
    const output = document.createElement("output");
    Object.assign(input, { type: "range", min: 0, max: spec.labels.length - 1, step: 1, value: spec.start });
    const show = () => {
      output.textContent = spec.labels[view.choice[spec.name]];
      input.setAttribute("aria-valuetext", output.textContent);
    };
    let waiting = false;
    input.addEventListener("input", () => {
      view.choice[spec.name] = Number(input.value);
      show();
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => { waiting = false; draw(view); });
    });
    show();
    label.className = "wide";
    label.append(input, output);
    return label;
  };

  const start = (figure) => {
    const view = {
      figure,
      element: document.getElementById(`plot-${figure.name}`),
      choice: Object.fromEntries(figure.controls.map((spec) => [spec.name, spec.start])),
      arrays: Object.fromEntries(Object.entries(figure.arrays).map(([name, array]) => [name, decode(array)])),
    };
    const bar = document.getElementById(`controls-${figure.name}`);
    figure.controls.forEach((spec) => bar.append(control(view, spec)));
    views.push(view);
    return draw(view);
  };

  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const setTheme = (theme) => { root.dataset.theme = theme; views.forEach(draw); };
  root.dataset.theme = dark.matches ? "dark" : "light";
  dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
  document.getElementById("theme").addEventListener("click",
    () => setTheme(root.dataset.theme === "dark" ? "light" : "dark"));

  let resized = null;
  window.addEventListener("resize", () => {
    clearTimeout(resized);
    resized = setTimeout(() => views.forEach(draw), 150);
  });

  // Paper is white whatever the screen is, and as wide as the style sheet says.
  let before = null;
  const beginPrint = () => { before = root.dataset.theme; root.classList.add("printing"); setTheme("light"); };
  const endPrint = () => { root.classList.remove("printing"); setTheme(before ?? root.dataset.theme); };
  window.addEventListener("beforeprint", beginPrint);
  window.addEventListener("afterprint", endPrint);

  // The library comes packed; its script runs once it is part of the page.
  const unpack = async (element) => {
    const bytes = Uint8Array.from(atob(element.textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    element.replaceWith(script);
  };
  const failed = (error) => {
    const note = document.createElement("p");
    note.className = "answer bad";
    note.textContent = `The figures cannot be drawn (${error.message}): this takes a browser of 2023 or later. `
      + "Text and tables are complete without them.";
    document.querySelector("main").prepend(note);
    throw error;
  };

  unpack(document.getElementById("plotly"))
    .then(() => Promise.all(figures.map(start)))
    .then(() => { root.dataset.ready = "yes"; }, failed);
})();

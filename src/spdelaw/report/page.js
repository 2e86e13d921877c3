"use strict";
(() => {
  // Okabe and Ito's colours on light ground; lighter neighbours of the same hues on dark.
  const PALETTES = {
    light: {
      data: "#0072B2", law: "#D55E00", second: "#007A5A", third: "#B0548A", fourth: "#5B5B5B",
      lawband: "rgba(213,94,0,0.20)", lawcore: "rgba(213,94,0,0.38)", neutralband: "rgba(120,130,140,0.22)",
      ink: "#1b1f24", muted: "#57606a", axis: "#8c959f", grid: "#e3e6ea", card: "#ffffff", missing: "#bdbdbd",
      cursor: "#1b1f24", coast: "#1b1f24",
    },
    dark: {
      data: "#56B4E9", law: "#E69F00", second: "#3CC79B", third: "#E39CC4", fourth: "#B8B8B8",
      lawband: "rgba(230,159,0,0.22)", lawcore: "rgba(230,159,0,0.40)", neutralband: "rgba(170,180,190,0.22)",
      ink: "#e8ebef", muted: "#a3adb8", axis: "#6b7580", grid: "#333a44", card: "#1d2229", missing: "#59616b",
      cursor: "#ffffff", coast: "#101010",
    },
  };
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

  // Two panels side by side stand one above the other in a narrow window, each with its title.
  const NARROW = 560;
  const stacked = (layout, width) => {
    const beside = (layout.xaxis2?.domain ?? [0])[0] > 0.4;
    if (width >= NARROW || !beside) return 1;
    const [upper, lower] = [[0.58, 1], [0, 0.42]];
    layout.xaxis = { ...layout.xaxis, domain: [0, 1] };
    layout.xaxis2 = { ...layout.xaxis2, domain: [0, 1] };
    layout.yaxis = { ...layout.yaxis, domain: upper };
    layout.yaxis2 = { ...layout.yaxis2, domain: lower };
    layout.annotations = (layout.annotations ?? []).map((note) => note.xref !== "paper" ? note
      : { ...note, font: { ...note.font, size: 11 }, x: 0, y: note.x > 0.4 ? lower[1] : upper[1] });
    if (layout.legend?.y < 0) layout.legend = { ...layout.legend, y: layout.legend.y / 2 };
    return 1.8;
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
    layout.height = squeeze(figure, layout, data, width) * stacked(layout, width);
    element.style.height = `${layout.height}px`;
    layout.shapes = [...(layout.shapes ?? []), ...cursors(view, palette)];
    // The buttons are named one by one: none of them may reach for a server.
    const settings = { responsive: true, displaylogo: false, plotlyServerURL: "",
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

  // Paper is white whatever the screen is.
  let before = null;
  window.addEventListener("beforeprint", () => { before = root.dataset.theme; setTheme("light"); });
  window.addEventListener("afterprint", () => { if (before) setTheme(before); });

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
      + "Words and tables are complete without them.";
    document.querySelector("main").prepend(note);
    throw error;
  };

  unpack(document.getElementById("plotly"))
    .then(() => Promise.all(figures.map(start)))
    .then(() => { root.dataset.ready = "yes"; }, failed);
})();

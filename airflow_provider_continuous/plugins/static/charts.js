// Draws the numbers over time that the page holds as JSON, in small charts with one common cursor.
(function () {
  const place = document.getElementById("charts");
  if (!place || !window.uPlot) return;
  const COLOURS = ["--one", "--two", "--three", "--four", "--five"];
  const count = (value) => value == null ? "–" : Math.abs(value) >= 10 || Number.isInteger(value)
    ? Math.round(value).toLocaleString("en") : Math.abs(value) < 0.1 ? value.toPrecision(2) : value.toFixed(1);
  const short = (value) => value == null ? "" : new Intl.NumberFormat("en", Math.abs(value) < 1 ? { maximumSignificantDigits: 2 } : { notation: "compact", maximumFractionDigits: 1 }).format(value);
  const ms = (value) => value == null ? "–" : value < 0 ? `-${ms(-value)}` : value >= 120_000 ? `${short(value / 60_000)} min` : value >= 10_000 ? `${(value / 1000).toFixed(1)} s` : `${value && value < 10 ? value.toFixed(1) : Math.round(value)} ms`;
  const UNITS = [["d", 86_400, 2 * 86_400], ["h", 3_600, 2 * 3_600], ["min", 60, 120], ["s", 1, 0]];
  function span(seconds) {
    const [unit, size] = UNITS.find(([, , from]) => seconds >= from);
    return `${(seconds / size).toFixed(1)} ${unit}`;
  }
  const bytes = (value) => value == null ? "–" : `${short(value)}B`;

  // title, how a value is told, and the lines: [label, values of the series].
  const charts = (s) => [
    ["Rows per second", count, [["in", s.rows_in], ["out", s.rows_out]]],
    ["Records behind the source", count, [["behind", s.behind]]],
    ["Watermark behind the clock", ms, [["behind", s.watermark_lag_ms]]],
    ["Latency, read to written", ms, [["p50", s.p50_ms], ["p99", s.p99_ms]]],
    ["An epoch is open for", ms, [["open", s.open_ms]]],
    ["Commit, by step", ms, [["whole", s.commit_ms], ...Object.entries(s.steps_ms)]],
    ["State", bytes, [[s.state_name, s.state_bytes]]],
    ["Rows in the state", count, [["rows", s.state_rows]]],
    ["Bad and late records per second", count, [["bad", s.bad], ["late", s.late]]],
  ];
  const drawn = new Map();
  let marks = [], isLong = false;

  function colour(name) {
    const probe = document.createElement("i");
    probe.className = `probe ${name.slice(2)}`;
    place.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  }

  function restarts(chart) {
    const { ctx, bbox } = chart;
    ctx.save();
    ctx.strokeStyle = colour("--mark");
    ctx.setLineDash([4, 4]);
    ctx.lineWidth = devicePixelRatio * 1.5;
    for (const mark of marks) {
      const x = chart.valToPos(mark.at_s, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath(); ctx.moveTo(x, bbox.top); ctx.lineTo(x, bbox.top + bbox.height); ctx.stroke();
    }
    ctx.restore();
  }

  // Without a cursor the legend has the newest values.
  function tellLast(chart) {
    if (chart.cursor.idx == null) chart.setLegend({ idx: chart.data[0].length - 1 }, false);
  }

  // Who has zoomed in stays there.
  function refill(chart, data) {
    const { min, max } = chart.scales.x, at = chart.data[0], isZoomed = min > at[0] || max < at[at.length - 1];
    chart.setData(data, !isZoomed);
    if (isZoomed) chart.setScale("x", { min, max });
  }

  function options(title, tell, lines, width) {
    const dim = colour("--dim"), line = colour("--line");
    const axis = { stroke: dim, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    return {
      width, height: 150, tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
      cursor: { sync: { key: "page" }, points: { size: 5 }, drag: { x: true, y: false } },
      legend: { show: true, live: true },
      scales: { y: { range: (_, low, high) => [low < 0 ? low * 1.1 : 0, high > 0 ? high * 1.1 : low < 0 ? 0 : 1] } },
      axes: [{ ...axis, space: 90, size: 30, values: isLong ? "{MM}-{DD} {HH}:{mm}" : "{HH}:{mm}:{ss}" }, { ...axis, size: 52, values: (_, ticks) => ticks.map((each) => tell === count ? short(each) : tell(each)) }],
      series: [
        { label: "at", value: "{YYYY}-{MM}-{DD} {HH}:{mm}:{ss} UTC" },
        ...lines.map(([label], index) => ({
          label, stroke: colour(COLOURS[index % COLOURS.length]), width: 1.75, spanGaps: false,
          points: { show: false }, value: (_, value) => tell(value),
        })),
      ],
      hooks: { draw: [restarts], setCursor: [tellLast] },
    };
  }

  function remove(title) {
    const { figure, chart } = drawn.get(title);
    chart.destroy();
    figure.remove();
    drawn.delete(title);
  }

  // Left as it is while it stays true: somebody may have the link focused.
  function tellNothing({ why, wider }) {
    const told = document.createElement("div");
    told.textContent = why;
    if (wider) {
      const link = document.createElement("a"), asked = new URLSearchParams(location.search);
      asked.set("window", wider);
      link.href = `?${asked}`;
      link.textContent = `Show the last ${wider}`;
      told.append(" ", link);
    }
    if (!place.classList.contains("nothing") || place.innerHTML !== told.outerHTML) place.replaceChildren(told);
    place.classList.add("nothing");
  }

  function draw(anew) {
    let s;
    try { s = JSON.parse(document.getElementById("series").textContent); } catch (_) { return; }
    marks = s.marks;
    const length = s.at_s.length > 1 ? s.at_s[s.at_s.length - 1] - s.at_s[0] : 0, wasLong = isLong;
    isLong = length > 86_400;
    document.getElementById("span").textContent = s.at_s.length ? span(length) : "";
    // uPlot breaks a line at null, and goes on across undefined: only a pause breaks it.
    const pauses = new Set(s.pauses);
    const drawable = (values) => values.map((each, index) => each == null && !pauses.has(index) ? undefined : each);
    const shown = charts(s).map(([title, tell, lines]) => [title, tell, lines.filter(([, values]) => values.some((each) => each != null))])
      .filter(([, , lines]) => lines.length && s.at_s.length > 1);
    // What nothing is known of any more goes, and so do charts that now have other axes or lines.
    const labels = new Map(shown.map(([title, , lines]) => [title, lines.map(([label]) => label).join()]));
    for (const [title, known] of [...drawn])
      if (anew || isLong !== wasLong || known.labels !== labels.get(title)) remove(title);
    place.tabIndex = shown.length ? 0 : -1;
    if (!shown.length) {
      tellNothing(s.nothing || { why: "There is nothing to draw." });
      return;
    }
    if (place.classList.contains("nothing")) { place.classList.remove("nothing"); place.textContent = ""; }
    for (const [title, tell, lines] of shown) {
      const data = [s.at_s, ...lines.map(([, values]) => drawable(values))];
      const known = drawn.get(title);
      const last = lines.map(([label, values]) => `${label} ${tell(values[values.length - 1])}`).join(", ");
      if (known) {
        refill(known.chart, data);
        tellLast(known.chart);
        known.told.setAttribute("aria-label", `${title}. Now: ${last}.`);
        continue;
      }
      const figure = document.createElement("figure"), caption = document.createElement("figcaption"), told = document.createElement("div");
      caption.textContent = title;
      told.setAttribute("role", "img");
      told.setAttribute("aria-label", `${title}. Now: ${last}.`);
      figure.className = "card chart";
      figure.append(caption, told);
      place.append(figure);
      const chart = new uPlot(options(title, tell, lines, told.clientWidth), data, told);
      chart.setLegend({ idx: s.at_s.length - 1 }, false);
      drawn.set(title, { chart, figure, told, labels: labels.get(title) });
    }
    const figures = shown.map(([title]) => drawn.get(title).figure);
    if (figures.some((each, index) => place.children[index] !== each)) place.append(...figures);
  }

  // What a key does to both ends of what is shown, in shares of its length.
  const KEYS = { "+": [0.25, -0.25], "=": [0.25, -0.25], "-": [-0.5, 0.5], ArrowLeft: [-0.25, -0.25], ArrowRight: [0.25, 0.25], 0: [-Infinity, Infinity] };
  place.addEventListener("keydown", (event) => {
    const [{ chart } = {}] = drawn.values(), moves = KEYS[event.key];
    if (event.target !== place || !chart || !moves || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const at = chart.data[0], first = at[0], last = at[at.length - 1], shown = chart.scales.x, length = shown.max - shown.min;
    let [min, max] = [shown.min + moves[0] * length, shown.max + moves[1] * length];
    if (moves[0] === moves[1]) [min, max] = min < first ? [first, first + length] : max > last ? [last - length, last] : [min, max];
    [min, max] = [Math.max(min, first), Math.min(max, last)];
    if (at.filter((each) => each >= min && each <= max).length < 2) return;
    for (const { chart: each } of drawn.values()) each.setScale("x", { min, max });
  });

  draw();
  document.addEventListener("looked", () => draw());
  const again = () => draw(true);
  document.addEventListener("theme", again);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  let width = place.clientWidth;
  new ResizeObserver(() => {
    if (place.clientWidth === width) return;
    width = place.clientWidth;
    for (const { chart, told } of drawn.values()) chart.setSize({ width: told.clientWidth, height: 150 });
  }).observe(place);
})();

const rows = data.allocators.filter((row) => row.status === 'complete');
const allocators = rows.filter((row) => row.name !== 'none');

const wrapped = (row) => row.entry.split(/[:;](?=[A-Za-z_]\w*=)/);

const colour = (row) => allocatorColour(row.name);

// How many rows of the same allocator stand before it in the list.
const form = (row) => allocators.filter((one) => allocatorColour(one.name) === colour(row))
  .indexOf(row);

function line(row, points, more = {}) {
  return { label: row.entry, data: points, ...lineStyle(colour(row), form(row)), ...more };
}

// ---- speed ----

function speed() {
  const number = (row) => row.numbers.events_per_second;
  const bars = { label: 'median', data: allocators.map((row) => number(row).median / 1e6),
    backgroundColor: allocators.map(colour), order: 1 };
  const ranges = { label: 'slowest to fastest replay', order: 0, grouped: false, barThickness: 6,
    borderColor: variable('--panel'), borderWidth: 1, borderSkipped: false,
    data: allocators.map((row) => [number(row).min / 1e6, number(row).max / 1e6]),
    backgroundColor: variable('--text') };
  return { type: 'bar', data: { labels: allocators.map(wrapped), datasets: [bars, ranges] },
    options: chartOptions({ indexAxis: 'y', plugins: { legend: { display: false } },
      scales: { x: axis('million events per second', { beginAtZero: true }),
        y: { grid: { display: false } } } }) };
}

// ---- latency ----

const PERCENTILES = [
  ['p50', 'p50'], ['p90', 'p90'], ['p99', 'p99'], ['p99.9', 'p999'], ['max', 'max'],
];

const STEP = data.latency_resolution_ns || 1;

// A logarithmic axis has no 0: what took less than a step of the clock is drawn at half a step.
function latency(kind) {
  const number = (row, key) => row.numbers[`${kind}_${key}_ns`].median;
  const shown = (row) => PERCENTILES.map(([, key]) => Math.max(number(row, key), STEP / 2));
  const lines = allocators.map((row) => line(row, shown(row), { pointRadius: 5 }));
  return { type: 'line', data: { labels: PERCENTILES.map(([label]) => label), datasets: lines },
    options: chartOptions({ scales: { x: axis('percentile of the calls'),
      y: axis('nanoseconds, logarithmic', { type: 'logarithmic', min: STEP / 2 }) } }) };
}

// ---- over time ----

function points(series, key) {
  const value = (i) => (series[key][i] === null ? null : series[key][i] / MIB);
  return series.seconds.map((x, i) => ({ x, y: value(i) }));
}

const known = (values) => values.filter((value) => value !== null).length;

function curves(key) {
  const withCurves = allocators.filter((row) => row.series && known(row.series[key]) > 0);
  const quiet = { pointRadius: 0, borderWidth: 1.5, borderColor: variable('--quiet'),
    backgroundColor: variable('--quiet') };
  const lines = withCurves.map((row) => line(row, points(row.series, key), { pointRadius: 0 }));
  const any = withCurves[0].series;
  lines.push({ label: 'live bytes, as asked for', data: points(any, 'live_bytes'), ...quiet,
    fill: 'origin', backgroundColor: variable('--line'), order: 1 });
  const original = `original_${key.replace('net_', '')}`;
  if (known(any[original]) > 0) {
    lines.push({ label: 'recorded program', data: points(any, original), ...quiet,
      borderDash: [3, 3], hidden: key === 'net_rss_bytes' });
  }
  return { type: 'line', data: { datasets: lines },
    options: chartOptions({ parsing: false, normalized: true,
      interaction: { mode: 'nearest', axis: 'x', intersect: false },
      scales: { x: axis('seconds of the recorded program', { type: 'linear' }),
        y: axis('MiB', { beginAtZero: true }) } }) };
}

// ---- the page ----

const has = (key) => allocators.some((row) => row.numbers[key].median !== null);
const hasCurve = (key) => allocators.some((row) => row.series && known(row.series[key]) > 2);
const list = (key, unit, scale) => allocators.filter((row) => row.numbers[key].median !== null)
  .map((row) => `${row.entry} ${round(row.numbers[key].median * scale)} ${unit}`).join(', ');

const clock = `Single calls, less the cost of the clock, whose steps are ${round(STEP)} ns; `
  + `what took less is drawn at ${round(STEP / 2)} ns.`;

const figures = [
  { title: 'Speed',
    text: 'Median of all replays; the thin bar goes from the slowest to the fastest.',
    label: () => list('events_per_second', 'million events per second', 1e-6),
    wide: true, height: 5 + 3 * allocators.length, there: () => allocators.length > 0, config: speed },
  { title: `Latency of ${data.allocation_kind}`, text: clock,
    label: () => list('allocation_p99_ns', 'ns at p99', 1),
    there: () => has('allocation_p50_ns'), config: () => latency('allocation') },
  { title: `Latency of ${data.free_kind}`, text: clock,
    label: () => list('free_p99_ns', 'ns at p99', 1),
    there: () => has('free_p50_ns'), config: () => latency('free') },
  { title: 'Resident memory',
    text: 'RSS of the replaying process, less what replaying itself takes. A click on its name '
      + 'shows the recorded program, with all that it has beside the heap.',
    label: () => `peaks: ${list('peak_net_rss_bytes', 'MiB', 1 / MIB)}`,
    there: () => hasCurve('net_rss_bytes'), config: () => curves('net_rss_bytes') },
  { title: 'Heap',
    text: 'What the allocator says that it has from the system. Each counts in its own way: '
      + 'compare over time, and RSS between allocators.',
    label: () => `peaks: ${list('peak_heap_bytes', 'MiB', 1 / MIB)}`,
    there: () => hasCurve('heap_bytes'), config: () => curves('heap_bytes') },
].filter((figure) => figure.there());

showFigures(figures, document.getElementById('charts'));

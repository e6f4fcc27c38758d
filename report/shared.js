// ---- words ----

const UNITS = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];

function bytesText(bytes) {
  let unit = 0;
  let number = bytes;
  for (; number >= 1024 && unit < UNITS.length - 1; unit += 1) number /= 1024;
  return bytes === 1 ? '1 byte' : `${unit === 0 ? number : round(number)} ${UNITS[unit]}`;
}

const share = (part, whole) => (whole > 0 ? `${round(100 * part / whole)} %` : '');
const sum = (numbers) => numbers.reduce((all, one) => all + one, 0);

// The unit in which bytes are drawn, and its size in bytes.
function unitFor(numbers) {
  const most = Math.max(...numbers, 1);
  const at = Math.min(Math.floor(Math.log2(most) / 10), UNITS.length - 1);
  return { name: UNITS[at], bytes: 1024 ** at };
}

// A table { column: [...] } as rows of the columns `keys`.
const rowsOf = (columns, ...keys) => columns[keys[0]]
  .map((_, i) => keys.map((key) => columns[key][i]));

// The same as a list of objects.
const objectsOf = (columns) => columns[Object.keys(columns)[0]].map((_, i) =>
  Object.fromEntries(Object.keys(columns).map((key) => [key, columns[key][i]])));

// Where a trace comes from.
const factsOf = ({ program, path, allocator, numbers }, name = 'Trace') => [
  ['Program', program], [name, path], ['Allocator', allocator],
  ...[['Calls', 'calls', countText], ['Objects made', 'objects', countText],
    ['Threads', 'threads', countText], ['Time', 'time', (ms) => `${round(ms / 1000)} s`],
    ['Alive at the peak', 'peak_live', bytesText], ['Alive at the end', 'end_live', bytesText],
    ['RSS of the program', 'peak_rss', bytesText], ['Its heap', 'peak_heap', bytesText]]
    .map(([title, key, text]) => [title, numbers[key] === null ? '' : text(numbers[key])])];

// ---- over time ----

const secondsOf = (time) => time.end_ns.map((ns) => ns / 1e9);

// Lines { label, seconds, values, at, fill, hidden }; those without any value are left out.
// `stepped`: a value belongs not to a point in time but to the interval since the previous one.
function timeChart(unit, lines, stepped = false) {
  const known = lines.filter((line) => line.values.some((value) => value !== null));
  const datasets = known.map(({ label, seconds, values, at, fill, hidden }) => ({ label, pointRadius: 0,
    fill, hidden, stepped: stepped ? 'after' : false,
    data: [...(stepped ? [{ x: 0, y: values[0] }] : []), ...values.map((y, i) => ({ x: seconds[i], y }))],
    ...lineStyle(palette(at), at + Math.floor(at / 7)) }));
  return { type: 'line', data: { datasets },
    options: chartOptions({ parsing: false, normalized: true,
      interaction: { mode: 'nearest', axis: 'x', intersect: false },
      scales: { x: axis('seconds since recording began', { type: 'linear' }),
        y: axis(unit, { beginAtZero: true }) } }) };
}

// Stacked areas { label, values } for the intervals between points. Chart.js would fill slopes
// between steps, so each time gets two points, slightly apart.
function stackedChart(unit, seconds, areas) {
  const aside = 1e-9;
  const corners = seconds.flatMap((end, i) => [(i > 0 ? seconds[i - 1] : 0) + aside, end]);
  const chart = timeChart(unit, areas.map(({ label, values }, at) => ({ label, seconds: corners, at,
    values: values.flatMap((value) => [value, value]), fill: at > 0 ? '-1' : 'origin' })));
  chart.data.datasets.forEach((one) => Object.assign(one, { borderWidth: 0, pointStyle: 'rect' }));
  chart.options.scales.y.stacked = true;
  return chart;
}

// ---- sizes ----

const powers = (from, to) => Array.from({ length: Math.max(to - from + 1, 1) }, (_, i) => from + i);
const magnitude = (size) => (size > 0 ? Math.floor(Math.log2(size)) + 1 : 0);
const magnitudeText = (at) => (at === 0 ? '0' : bytesText(2 ** (at - 1)));

// The sums of a column, by the magnitude of another one.
function byMagnitude(table, of, key) {
  const totals = [0];
  table[of].forEach((number, i) => {
    const at = magnitude(number);
    while (totals.length <= at) totals.push(0);
    totals[at] += table[key][i];
  });
  return totals;
}

const sizeText = (size, highest) => (highest > size ? `${countText(size)}..` : countText(size));

// Horizontal bars, one a line.
function lyingBars(labels, values, colours, unit, of = 'bytes') {
  return { type: 'bar', data: { labels, datasets: [{ data: values, backgroundColor: colours }] },
    options: chartOptions({ indexAxis: 'y', plugins: { legend: { display: false } },
      scales: { x: axis(unit, { beginAtZero: true }),
        y: { ...axis(of), ticks: { autoSkip: false } } } }) };
}

// Vertical bars side by side: { label, data, at } for each colour.
function standingBars(labels, bars, x, y) {
  const datasets = bars.map(({ label, data: values, at }) =>
    ({ label, data: values, backgroundColor: palette(at) }));
  return { type: 'bar', data: { labels, datasets },
    options: chartOptions({ scales: { x: axis(x), y: axis(y, { beginAtZero: true }) } }) };
}

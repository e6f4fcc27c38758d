const rows = data.allocators.filter((row) => row.status === 'complete');
const allocators = rows.filter((row) => row.name !== 'none');

const narrow = matchMedia('(max-width: 40rem)');

// Settings that are too long for a chart are replaced by a letter, which the facts explain.
const LONG = 24;
// A change of code (--what-if) stands behind a comma.
const changeOf = (row) => (row.what_if && row.entry.endsWith(`, ${row.what_if.text}`)
  ? [`if ${row.what_if.text}`] : []);
const partsOf = (row) => (changeOf(row).length > 0 ? row.entry.slice(0, -row.what_if.text.length - 2) : row.entry)
  .split(/[:;](?=[A-Za-z_]\w*=)/);
const settingsOf = (row) => [...partsOf(row).slice(1), ...changeOf(row)];
const lettered = allocators.filter((row) => settingsOf(row).join('; ').length > LONG);
const letterOf = (row) => String.fromCodePoint(65 + lettered.indexOf(row) % 26);
const nameOf = (row) => partsOf(row)[0];
const rowName = (row) => (lettered.includes(row) ? `${nameOf(row)} (${letterOf(row)})` : row.entry);

// The recorded allocator has a mark; a short setting has a line of its own.
const wrapped = (row) => {
  const [first, ...more] = lettered.includes(row) ? [rowName(row)] : [nameOf(row), ...settingsOf(row)];
  return [row.recorded ? `${first} *` : first, ...more];
};

// The name of a library may not be UTF-8; then it is null.
const colour = (row) => allocatorColour(row.name ?? row.entry);

// How many earlier rows of the list have the same colour.
const form = (row) => allocators.filter((one) => colour(one) === colour(row)).indexOf(row);

function line(row, points, more = {}) {
  return { label: rowName(row), data: points, ...lineStyle(colour(row), form(row)), ...more };
}

// ---- best first ----

const rank = (row, measure) => row[`rank_${measure}`] || Infinity;

function sorted(measure) {
  const median = (row) => row.numbers[data.verdict[measure].number].median;
  const less = (a, b, of) => (of(a) === of(b) ? 0 : of(a) - of(b));
  return [...allocators].sort((a, b) =>
    less(a, b, (row) => rank(row, measure)) || less(a, b, median));
}

const rankText = (row, measure) => {
  const equal = allocators.filter((one) => rank(one, measure) === rank(row, measure)).length > 1;
  const few = data.runs < 4 ? '?' : '';
  return row[`rank_${measure}`] === null ? '' : `${row[`rank_${measure}`]}${equal ? '=' : ''}${few}`;
};

// ---- bars ----

// A bar for each row, with a thin one over it from the least to the greatest value; `own` is the
// replay's own share of each bar; `more` is added to each.
function bars(measure, key, scale, unit, own = 0, more = () => 0) {
  const shown = sorted(measure);
  const number = (row) => Object.fromEntries(['median', 'min', 'max']
    .map((of) => [of, row.numbers[key][of] + more(row)]));
  const median = { label: 'median', order: 2, data: shown.map((row) => number(row).median * scale),
    backgroundColor: shown.map(colour) };
  const range = { label: 'least to greatest', order: 0, barThickness: 6,
    borderColor: variable('--panel'), borderWidth: 1, borderSkipped: false,
    data: shown.map((row) => [number(row).min * scale, number(row).max * scale]),
    backgroundColor: variable('--text') };
  const ownPart = { label: 'the replay itself', order: 1, data: shown.map(() => own * scale),
    backgroundColor: variable('--line'), borderColor: variable('--panel'), borderWidth: 1 };
  const all = own > 0 ? [median, range, ownPart] : [median, range];
  return { type: 'bar',
    data: { labels: shown.map(wrapped), datasets: all.map((one) => ({ ...one, grouped: false })) },
    options: chartOptions({ indexAxis: 'y', plugins: { legend: { display: false } },
      scales: { x: axis(unit, { beginAtZero: true }),
        y: { grid: { display: false }, ticks: { autoSkip: false } } } }) };
}

// Whether all rows have an expected memory of the process, so that this is shown instead of the
// replay's.
const ofProcess = allocators.length > 0
  && allocators.every((row) => row.expected.peak_rss_bytes !== null);
const beside = (row) => (ofProcess
  ? row.expected.peak_rss_bytes - row.numbers.peak_net_rss_bytes.median : 0);

// ---- latency ----

// Without the longest call, which takes a thousand times as long and would hide the differences; it
// is in the table.
const PERCENTILES = [['p50', 'p50'], ['p90', 'p90'], ['p99', 'p99'], ['p99.9', 'p999']];

const STEP = data.latency_resolution_ns || 1;

const percentile = (row, kind, key) => (row.numbers[`${kind}_${key}_ns`] || {}).median ?? null;
const percentiles = (kind) => PERCENTILES.filter(([, key]) =>
  allocators.some((row) => percentile(row, kind, key) !== null));

// A logarithmic axis has no 0, so times below the clock's step are drawn at half a step.
function latency(kind) {
  const shown = (row) => percentiles(kind).map(([, key]) => {
    const value = percentile(row, kind, key);
    return value === null ? null : Math.max(value, STEP / 2);
  });
  const lines = sorted('time').map((row) => line(row, shown(row), { pointRadius: 5 }));
  return { type: 'line',
    data: { labels: percentiles(kind).map(([label]) => label), datasets: lines },
    options: chartOptions({ scales: { x: axis('percentile of the calls'),
      y: axis('nanoseconds, logarithmic', { type: 'logarithmic', min: STEP / 2 }) } }) };
}

// ---- over time ----

function points(series, key) {
  const value = (i) => (series[key][i] === null ? null : series[key][i] / MIB);
  return series.seconds.map((x, i) => ({ x, y: value(i) }));
}

const known = (values) => (values || []).filter((value) => value !== null).length;
const withCurve = (key) => sorted('memory')
  .filter((row) => row.series && known(row.series[key]) > 0);

// The key of what the recorded process had; for RSS, without the recorder's memory if that is
// known.
function originalKey(series, key) {
  if (key === 'heap_bytes') return 'original_heap_bytes';
  return known(series.original_net_rss_bytes) > 0 ? 'original_net_rss_bytes' : 'original_rss_bytes';
}

function curves(key) {
  const quiet = { pointRadius: 0, borderWidth: 1.5, borderColor: variable('--quiet'),
    backgroundColor: variable('--quiet') };
  const lines = withCurve(key).map((row) => line(row, points(row.series, key), { pointRadius: 0 }));
  const any = withCurve(key)[0].series;
  lines.push({ label: 'live bytes, as asked for', data: points(any, 'live_bytes'), ...quiet,
    fill: 'origin', backgroundColor: variable('--line'), order: 1 });
  const original = originalKey(any, key);
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

// ---- all numbers ----

const numberTitle = ({ group, title, unit }) => [group, title, unit].join(' ').trim();

// As on a terminal: a time below the clock's step is shown as such, and `!` marks a number that a
// warning is about.
function cellText(row, { key, unit, scale, decimals, spoiled }) {
  const { median, min, max } = row.numbers[key];
  const ofCalls = unit === 'ns' && /^(allocation|free)_/.test(key);
  const text = (value) => (ofCalls && value < STEP ? `< ${round(STEP)}`
    : (value * scale).toFixed(decimals).replace(/^-(?=[0.]*$)/, ''));
  if (median === null) return '–';
  const mark = spoiled[data.allocators.indexOf(row)] ? ' !' : '';
  return text(min) === text(max) ? text(median) + mark
    : `${text(median)}${mark}\n(${text(min)} to ${text(max)})`;
}

function changeText(row) {
  const { cpu_change_seconds: likely, cpu_change_least_seconds: least,
    cpu_change_most_seconds: most } = row.expected;
  if (row.recorded) return 'as recorded';
  const range = least === null ? '' : `\n(${round(1000 * least)} to ${round(1000 * most)})`;
  return likely === null ? '–' : `${round(1000 * likely)}${range}`;
}

function allNumbers() {
  const shown = [...sorted('memory'), ...rows.filter((row) => !allocators.includes(row))];
  const mib = (bytes) => (bytes === null ? '–' : (bytes / MIB).toFixed(1));
  const of = (title, text) => [title, ...shown.map(text)];
  const version = ({ allocator }) => (allocator ?? '').replace(/^.*(?=\()|-[^()]*(?=\))/g, '');
  return { head: of('', (row) => `${row.entry} ${version(row)}`),
    rows: [of('rank by memory', (row) => rankText(row, 'memory') || '–'),
      of('rank by time', (row) => rankText(row, 'time') || '–'),
      of('expected peak RSS of the process, MiB', (row) => mib(row.expected.peak_rss_bytes)),
      of('expected change of the program, ms', changeText),
      ...data.shown.map((number) => of(numberTitle(number), (row) => cellText(row, number)))] };
}

function latencyTable(kind) {
  const shown = sorted('time');
  return { head: ['', ...shown.map((row) => row.entry)],
    rows: data.shown.filter(({ key }) => key.startsWith(`${kind}_`))
      .map((number) => [numberTitle(number), ...shown.map((row) => cellText(row, number))]) };
}

// ---- the page ----

const { trace, machine } = data;
showFacts([['Program', trace.program], ['Trace', trace.file],
  ...[['Events', 'events'], ['Threads', 'threads'], ['Switches between threads', 'thread_switches'],
    ['Objects alive at the end', 'live_at_end']].map(([name, key]) => [name, countText(trace[key] ?? 0)]),
  ['Engine', data.engine], ['Touched of objects', data.touch],
  ['Clock that allocators see', data.clock],
  ['Replays', `${data.runs} of each allocator, interleaved`],
  ['Options of replay', data.replay_options.join(' ')],
  ['Machine', machineText(machine)],
  ['Measured', data.ended],
  ...lettered.map((row) => [rowName(row), settingsOf(row).join('; ')])]);

const has = (key) => allocators
  .some((row) => row.numbers[key] && row.numbers[key].median !== null);
const hasCurve = (key) => allocators.some((row) => row.series && known(row.series[key]) > 2);

const barHeight = 5 + (narrow.matches ? 3.25 : 2.5) * allocators.length;
const own = rows.length > 0 ? Math.max(...rows.map((row) => row.numbers.own_rss_bytes.median)) : 0;
const clock = `Single calls, less the cost of the clock, whose resolution is ${round(STEP)} ns; `
  + `what took less is drawn at ${round(STEP / 2)} ns. `
  + 'A percentile with too few calls above it is left out.';

const { cpu_seconds: programSeconds, allocator_seconds: inAllocator } = data.original;
const programShare = programSeconds > 0 && inAllocator !== null
  ? ` In the program, this is about ${round(100 * inAllocator / programSeconds, 2)} % of its `
    + `${round(programSeconds)} seconds.` : '';

const figures = [
  { title: ofProcess ? 'Peak memory of the process' : 'Peak resident memory of replays',
    better: 'less is better', height: barHeight,
    text: 'Median of all replays, best first; the thin bar goes from the least to the greatest. '
      + (ofProcess ? 'As a process: what the program had, and the difference of the replays. '
        : `Without what replaying itself takes, up to ${round(own / MIB)} MiB. `)
      + (allocators.some((row) => row.recorded) ? '*: what the program was recorded on.' : ''),
    there: () => has('peak_net_rss_bytes'),
    config: () => bars('memory', 'peak_net_rss_bytes', 1 / MIB, 'MiB', 0, beside) },
  { title: 'Processor time of replays', better: 'less is better', height: barHeight,
    text: 'Calls and touching, without the program\u2019s own work. Median, best first; the thin '
      + 'bar goes from the least to the greatest. Grey: what a replay without an allocator takes.'
      + programShare,
    there: () => has('cpu_seconds'),
    config: () => bars('time', 'cpu_seconds', 1000, 'milliseconds', data.own_cpu_seconds || 0) },
  { title: 'Resident memory over time', better: 'less is better',
    text: 'RSS of the replaying process, less what replaying itself takes. A click on its name '
      + 'shows the recorded program, with all that it has beside the heap.',
    there: () => hasCurve('net_rss_bytes'), config: () => curves('net_rss_bytes') },
  { title: 'Heap over time',
    text: 'What the allocator says it has from the system. Each counts in its own way: '
      + 'compare it over time, and compare allocators by RSS.',
    there: () => hasCurve('heap_bytes'), config: () => curves('heap_bytes') },
  { title: `Latency of ${data.allocation_kind}`, better: 'less is better', text: clock,
    there: () => has('allocation_p50_ns'), config: () => latency('allocation'),
    table: () => latencyTable('allocation') },
  { title: `Latency of ${data.free_kind}`, better: 'less is better', text: clock,
    there: () => has('free_p50_ns'), config: () => latency('free'),
    table: () => latencyTable('free') },
].filter((figure) => figure.there());

showFigures(figures, document.getElementById('charts'));
addTable(document.getElementById('tables'), allNumbers(),
  'all numbers: medians of all replays, in brackets from the least to the greatest').open = true;

const { traces, entries, machines } = data;
const narrow = matchMedia('(max-width: 40rem)');

const MEASURES = {
  memory: { title: 'Memory', of: 'RSS of the process' },
  time: { title: 'Time', of: 'processor time of the program' },
};

const rowOf = new Map(data.rows.map((row) => [`${row.trace}\n${row.entry}`, row]));
const rowAt = (trace, entry) => rowOf.get(`${trace.trace}\n${entry.entry}`);

// Each setting gets its own line; in a chart, each part of a setting.
const lines = (entry) => entry.entry.split(/[:;](?=[A-Za-z_]\w*=)/);
const parts = (entry) => lines(entry).flatMap((line) => line.split(/(?<=[,=])/));

// ---- changes ----

// A change of this much or more has the full colour.
const FULL = 0.25;

const perCent = (share) => (share === null || share === undefined ? '–'
  : `${share > 0 ? '+' : share < 0 ? '−' : ''}${Math.abs(100 * share).toFixed(1)} %`
    .replace(/^[+−](?=0\.0 )/, ''));
const range = ({ least, most }) => (least === null ? '' : `${perCent(least)} to ${perCent(most)}`);

// Less is blue, more is orange; both have enough contrast with the text, light and dark.
function shade(share) {
  const strength = (0.6 * Math.min(Math.abs(share), FULL) / FULL).toFixed(3);
  return share < 0 ? `rgba(0, 110, 200, ${strength})` : `rgba(230, 110, 0, ${strength})`;
}

const mib = (bytes) => (bytes === null ? '' : `${(bytes / MIB).toFixed(1)} MiB`);
const signedMib = (bytes) => `${bytes < 0 ? '−' : '+'}${mib(Math.abs(bytes))}`;

function cellText(row, trace, measure) {
  if (row.status !== 'complete') return row.status;
  const of = row[measure];
  const mark = `${of.above_noise || row.recorded ? '' : ' ='}${row.elsewhere ? ' ~' : ''}`;
  const change = row.recorded ? 'now' : perCent(of.change) + mark;
  const bytes = of.of !== 'difference' ? mib(row.peak_rss_bytes)
    : row.recorded ? mib(trace.process_peak_rss_bytes) : signedMib(row.peak_change_bytes);
  return measure === 'memory' ? `${change}\n${bytes}` : change;
}

function cellTitle(row, trace, measure) {
  if (row.status === 'missing') return `${trace.trace}: no result has ${row.entry}`;
  if (row.status === 'failed') return `${trace.trace}, ${row.entry}: ${row.error}`;
  const of = row[measure];
  return [`${trace.trace}, ${row.entry}`, `${perCent(of.change)} ${range(of)}`.trim(),
    { process: '', difference: 'difference of replays as a share of what the process had',
      replays: 'of replays' }[of.of], of.rank === 1 ? 'least of the trace' : '',
    `${row.runs} replays`].filter((text) => text).join(', ');
}

// ---- the heat map ----

function heatTable(measure) {
  const table = tableOf({
    head: ['', 'all traces', ...traces.map((trace) => trace.trace)],
    rows: entries.map((entry) => [lines(entry).join('\n').replace(/[,=]/g, '$&\u200b'),
      entry.recorded ? 'now'
        : `${perCent(entry[measure].mean)}\n${range(entry[measure])}`.trim()
          .replaceAll(' %', '\u00a0%'),
      ...traces.map((trace) => cellText(rowAt(trace, entry), trace, measure))]) });
  table.className = 'heat';
  entries.forEach((entry, i) => {
    const cells = table.children[1].children[i].children;
    const { mean, least, most } = entry[measure];
    if (least !== null && (least > 0 || most < 0)) cells[1].style.background = shade(mean);
    traces.forEach((trace, k) => {
      const row = rowAt(trace, entry), cell = cells[2 + k], of = row[measure];
      cell.title = cellTitle(row, trace, measure);
      if (row.status !== 'complete') cell.className = 'bad';
      else if (trace[`best_${measure}`].includes(row.entry)) cell.className = 'best';
      if (row.status === 'complete' && of.above_noise) cell.style.background = shade(of.change);
    });
  });
  return table;
}

function addHeatMap(measure, into) {
  const { title, of } = MEASURES[measure];
  const figure = document.createElement('figure');
  const caption = document.createElement('figcaption');
  const strong = document.createElement('strong');
  const better = document.createElement('span');
  const scroll = document.createElement('div');
  better.textContent = 'less is better';
  strong.append(better, `${title}, by trace`);
  caption.append(strong, `Change of the ${of}, from the allocator that the program was recorded `
    + `on (now). Blue: less, orange: more, full colour from ${100 * FULL} % on; without a `
    + `colour and with =: within the noise. Bold: the least of the trace, and what is equal to it.${
      data.rows.some((row) => row.elsewhere)
        ? ' ~: on another machine than the rest of the trace, against the allocator there.' : ''}`);
  scroll.className = 'scroll';
  scroll.tabIndex = 0;
  scroll.append(heatTable(measure));
  figure.className = 'wide';
  figure.setAttribute('aria-label', `${title}, by trace`);
  figure.append(caption, scroll);
  into.append(figure);
}

// ---- over all traces ----

const known = (measure) => entries.filter((entry) => entry[measure].mean !== null);

// A bar for each entry, with a thin one over it for the interval.
function bars(measure) {
  const shown = known(measure).sort((a, b) => a[measure].mean - b[measure].mean);
  const colours = shown.map((entry) => allocatorColour(lines(entry)[0]));
  const datasets = [
    { label: 'mean', order: 2, data: shown.map((entry) => 100 * entry[measure].mean),
      backgroundColor: colours, minBarLength: 2 },
    { label: '95 %', order: 0, barThickness: 6, backgroundColor: variable('--text'),
      borderColor: variable('--panel'), borderWidth: 1, borderSkipped: false,
      data: shown.map(({ [measure]: { least, most } }) =>
        (least === null ? null : [100 * least, 100 * most])) }];
  return { type: 'bar',
    data: { labels: shown.map(parts), datasets: datasets.map((one) => ({ ...one, grouped: false })) },
    options: chartOptions({ indexAxis: 'y', plugins: { legend: { display: false } },
      scales: { x: axis('change from the recorded allocator, %'),
        y: { grid: { display: false }, ticks: { autoSkip: false } } } }) };
}

function overAll(measure) {
  const { title, of } = MEASURES[measure];
  const most = Math.max(1, ...known(measure).map((entry) => parts(entry).length));
  return { title: `${title}, over all traces`, better: 'less is better',
    height: 5 + Math.max(2.5, 1.1 * most) * known(measure).length,
    text: `Geometric mean of the ${of} under an allocator, relative to the recorded one; the thin `
      + 'bar is its 95 % confidence interval.',
    there: known(measure).length > 0, config: () => bars(measure),
    table: () => ({ head: ['', 'mean', '95 %', 'worst', 'in', 'less', 'noise', 'more', 'traces'],
      rows: known(measure).map(({ entry, [measure]: sum }) => [entry, perCent(sum.mean),
        range(sum) || '–', perCent(sum.worst), sum.worst_trace ?? '–', sum.traces_less,
        sum.traces_noise, sum.traces_more, sum.traces]) }) };
}

// ---- tables ----

function tracesTable() {
  const seconds = (number) => (number === null ? '–' : `${round(number)} s`);
  return { head: ['', 'recorded on', 'process', 'its time', 'least memory', 'least time', 'results'],
    rows: traces.map((trace) => [trace.trace, trace.recorded ?? '–',
      mib(trace.process_peak_rss_bytes) || '–', seconds(trace.process_cpu_seconds),
      trace.best_memory.join('\n') || '–', trace.best_time.join('\n') || '–',
      trace.results.length]) };
}

function allRows() {
  const number = (value, text) => (value === null || value === undefined ? '–' : text(value));
  const of = (row, measure) => (row.status === 'complete'
    ? [perCent(row[measure].change), range(row[measure]) || '–',
      row[measure].above_noise || row.recorded ? '' : 'noise'] : ['–', '–', row.status]);
  return { head: ['', 'trace', 'peak RSS', 'memory', '95 %', '', 'time', 'range', '', 'replays',
    'machine'],
  rows: data.rows.map((row) => [row.entry, row.trace, number(row.peak_rss_bytes, mib),
    ...of(row, 'memory'), ...of(row, 'time'), number(row.runs, String),
    number(row.machine, (machine) => String(machine + 1))]) };
}

// ---- the page ----

const dropped = (data.halving?.rounds ?? []).flatMap((of, i) => of.entries
  .filter((entry) => entry.dropped).map((entry) => `${entry.entry} (round ${i + 1})`));

showFacts([['Traces', countText(traces.length)], ['Allocators and settings', countText(entries.length)],
  ['Results', `${data.results - data.missing.length - data.unreadable.length} of ${data.results}`],
  ...machines.map((machine, i) => [machines.length > 1 ? `Machine ${i + 1}` : 'Machine',
    machineText(machine)]),
  ['Dropped by halving', dropped.join(', ')]]);

const charts = document.getElementById('charts');
Object.keys(MEASURES).forEach((measure) => addHeatMap(measure, charts));
showFigures(Object.keys(MEASURES).map(overAll).filter((figure) => figure.there), charts);
addTable(document.getElementById('tables'), tracesTable(), 'traces').open = true;
addTable(document.getElementById('tables'), allRows(), 'all rows');

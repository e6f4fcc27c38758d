// ---- over time ----

const time = data.timeline;
const seconds = secondsOf(time);
const steps = seconds.map((end, i) => end - (i > 0 ? seconds[i - 1] : 0));

function memory() {
  const unit = unitFor([...time.rss_bytes, ...time.heap_bytes, ...time.most_live_bytes]);
  const line = (label, key, at) => ({ label, seconds, at,
    values: time[key].map((value) => (value > 0 ? value / unit.bytes : null)) });
  return timeChart(unit.name, [line('alive, as asked for', 'most_live_bytes', 0),
    line('heap', 'heap_bytes', 1), line('RSS of the program', 'rss_bytes', 3)]);
}

function rate() {
  const line = (label, key, at) => ({ label, seconds, at,
    values: time[key].map((value, i) => (steps[i] > 0 ? value / steps[i] : null)) });
  return timeChart('per second', [line('objects made', 'made', 0),
    line('objects ended', 'ended', 1), line('of both, by reallocs', 'reallocs', 2)]);
}

// ---- sizes ----

const { sizes } = data;
const bySizes = Object.fromEntries(['made', 'bytes', 'peak_bytes']
  .map((key) => [key, byMagnitude(sizes, 'size', key)]));
const magnitudes = bySizes.made.map((_, at) => magnitudeText(at));

function sizesChart() {
  const bars = (label, key, whole, at) => ({ label, at,
    data: bySizes[key].map((value) => 100 * value / Math.max(whole, 1)) });
  return standingBars(magnitudes, [bars('of all objects', 'made', data.made, 0),
    bars('of all bytes asked for', 'bytes', data.bytes, 1),
    bars('of the bytes at the peak', 'peak_bytes', data.peak.bytes, 2)],
  'size: from so much to less than twice as much', 'per cent');
}

function largest(key, count = 15) {
  return sizes.size.map((_, i) => i).filter((i) => sizes[key][i] > 0)
    .sort((a, b) => sizes[key][b] - sizes[key][a]).slice(0, count);
}

const textOfSize = (i) => sizeText(sizes.size[i], sizes.highest[i]);

function topChart(key, at, whole, unit) {
  const entries = largest(key);
  return lyingBars(entries.map(textOfSize), entries.map((i) => 100 * sizes[key][i] / whole),
    palette(at), unit);
}

const topTable = (key, text) => largest(key, 100).map((i) => [textOfSize(i), text(sizes[key][i])]);

// ---- heat maps: points as large as a cell, the darker the more ----

function heat(cells, columns, rows, xText, yText) {
  const most = Math.max(...cells.map((cell) => cell.count), 1);
  const [r, g, b] = palette(0).match(/\w\w/g).map((part) => parseInt(part, 16));
  const strength = (count) => 0.12 + 0.88 * Math.log1p(count) / Math.log1p(most);
  const ticks = (labels) => ({ type: 'linear', min: -0.5, max: labels.length - 0.5,
    ticks: { stepSize: 1, autoSkip: true, callback: (value) => labels[value] ?? '' },
    afterBuildTicks: (scale) => { scale.ticks = labels.map((_, value) => ({ value })); } });
  const cell = { beforeDatasetsDraw: ({ ctx, scales: { x, y } }) => {
    const width = x.getPixelForValue(1) - x.getPixelForValue(0);
    const height = y.getPixelForValue(0) - y.getPixelForValue(1);
    for (const one of cells) {
      ctx.fillStyle = `rgba(${r}, ${g}, ${b}, ${strength(one.count)})`;
      ctx.fillRect(x.getPixelForValue(one.x) - width / 2 + 0.5,
        y.getPixelForValue(one.y) - height / 2 + 0.5, width - 1, height - 1);
    }
  } };
  const label = ({ raw }) => `${columns[raw.x]} / ${rows[raw.y]}: ${countText(raw.count)}`;
  return { type: 'scatter', plugins: [cell],
    data: { datasets: [{ data: cells, pointRadius: 0, pointHitRadius: 12 }] },
    options: chartOptions({ plugins: { legend: { display: false },
      tooltip: { callbacks: { label } } },
    scales: { x: axis(xText, { ...ticks(columns), grid: { display: false } }),
      y: axis(yText, { ...ticks(rows), grid: { display: false } }) } }) };
}

const bySize = data.lifetimes.by_size;

function lifetimes() {
  const most = (key) => Math.max(...bySize[key].map(magnitude), 1);
  const columns = powers(0, most('calls')).map((at) => (at === 0 ? '0' : countText(2 ** (at - 1))));
  const rows = powers(0, most('size')).map(magnitudeText);
  const cells = bySize.size.map((size, i) => ({ x: magnitude(bySize.calls[i]), y: magnitude(size),
    count: bySize.objects[i] }));
  return heat(cells, columns, rows, 'lived for so many calls, or less than twice as many',
    'size, or less than twice as much');
}

// ---- ages ----

const { ages } = data;

function agesChart() {
  const pieces = 64;
  const width = Math.ceil((data.calls / ages.calls_per_piece + 1) / pieces);
  const unit = unitFor([data.peak.bytes / 8]);
  const bars = (label, key, at) => {
    const totals = powers(0, pieces - 1).map(() => 0);
    ages.piece.forEach((piece, i) => {
      totals[Math.min(Math.floor(piece / width), pieces - 1)] += ages[key][i] / unit.bytes;
    });
    return { label, at, data: totals };
  };
  return standingBars(powers(0, pieces - 1).map((i) => countText(i * width * ages.calls_per_piece)),
    [bars('alive at the peak', 'peak_bytes', 0), bars('alive at the end', 'end_bytes', 1)],
    'made by the calls from this one on', unit.name);
}

// ---- rounding ----

const allocators = Object.keys(data.rounding);

const added = (name) => ({
  peak: share(data.rounding[name].peak_bytes - data.peak.bytes, data.peak.bytes),
  all: share(data.rounding[name].bytes - data.bytes, data.bytes),
});

function rounding() {
  const bars = (label, key, whole, light) => ({ label,
    data: allocators.map((name) => 100 * (data.rounding[name][key] - whole) / Math.max(whole, 1)),
    backgroundColor: allocators.map((name) => allocatorColour(name.split(' ')[0]) + light),
    borderColor: allocators.map((name) => allocatorColour(name.split(' ')[0])), borderWidth: 1 });
  return { type: 'bar', data: { labels: allocators, datasets: [
    bars('at the peak', 'peak_bytes', data.peak.bytes, ''),
    bars('of all objects (pale)', 'bytes', data.bytes, '60')] },
  options: chartOptions({ plugins: { legend: { display: false } },
    scales: { x: { grid: { display: false } },
      y: axis('per cent of what was asked for', { beginAtZero: true }) } }) };
}

// ---- threads ----

const lanes = [...data.threads].sort((a, b) => b.calls - a.calls).slice(0, 32)
  .sort((a, b) => a.lane - b.lane);
const laneText = (lane) => (lane.threads === 1 ? String(lane.thread) : `lane ${lane.lane}`);

function threadsChart() {
  const place = new Map(lanes.map((lane, i) => [lane.lane, i]));
  const cells = lanes.map((lane, i) => ({ x: i, y: i, count: lane.ended - lane.foreign }));
  for (const [maker, ender, count] of rowsOf(data.foreign, 'made_by', 'ended_by', 'objects'))
    if (place.has(maker) && place.has(ender))
      cells.push({ x: place.get(ender), y: place.get(maker), count });
  const labels = lanes.map(laneText);
  return heat(cells.filter((cell) => cell.count > 0), labels, labels, 'ended by thread',
    'made by thread');
}

const threadRows = () => lanes.map((lane) => [laneText(lane), countText(lane.calls),
  countText(lane.made), bytesText(lane.bytes), countText(lane.ended), countText(lane.foreign),
  countText(lane.longest_turn), bytesText(lane.peak_bytes), bytesText(lane.end_bytes)]);

// ---- reallocs ----

function growthChart() {
  const { up_to: limits, calls } = data.reallocs.growth;
  const labels = limits.map((limit, i) => (limit === null ? `> ${limits[i - 1]}` : `≤ ${limit}`));
  return standingBars(labels, [{ label: 'reallocs', data: calls, at: 2 }],
    'new size divided by the old one', 'calls');
}

// ---- how far calls go: report --depths ----

const DEPTHS = ['thread cache', 'central list', 'page heap', 'the system'];
const depths = data.depths ?? { paths: [], timeline: [] };
const depthOf = (path) => Math.max('CPS'.split('').reduce((far, letter, i) =>
  (path.includes(letter) ? i + 1 : far), 0), 0);

// By class of sizes, those first with most calls that a cache alone did not serve.
const byClass = Object.values(depths.paths.reduce((all, { class: of, bytes, path, calls }) => {
  all[of] ??= { of, bytes, calls: [0, 0, 0, 0] };
  all[of].calls[depthOf(path)] += calls;
  return all;
}, {})).sort((a, b) => sum(b.calls.slice(1)) - sum(a.calls.slice(1)));
const classText = ({ of, bytes }) => (of > 0 ? bytesText(bytes) : 'larger');

function depthsChart() {
  const shown = byClass.slice(0, 12);
  const part = (one, i) => 100 * one.calls[i] / Math.max(sum(one.calls), 1);
  return { type: 'bar', data: { labels: shown.map(classText), datasets: DEPTHS.map((label, i) => ({
    label, backgroundColor: palette(i), data: shown.map((one) => part(one, i)) })) },
  options: chartOptions({ indexAxis: 'y', scales: {
    x: axis('per cent of the calls', { stacked: true, max: 100 }),
    y: { ...axis(''), stacked: true, ticks: { autoSkip: false } } } }) };
}

function systemChart() {
  const ends = depths.timeline.map((row) => row.end_ns / 1e9);
  const unit = unitFor([...depths.timeline.map((row) => row.taken_bytes),
    ...depths.timeline.map((row) => row.released_bytes)]);
  const line = (label, key, at) => ({ label, seconds: ends, at,
    values: depths.timeline.map((row) => row[key] / unit.bytes) });
  return timeChart(unit.name, [line('taken from the system', 'taken_bytes', 1),
    line('given back', 'released_bytes', 0)]);
}

// ---- what keeps pages resident: report --under ----

const MOMENTS = { peak_rss: 'where RSS was largest', peak_live: 'where most was alive',
  end: 'at the end' };
const momentText = (moment) => moment.moments.map((name) => MOMENTS[name]).join(', ');
const fullnessText = (at) => (at === 0 ? 'no object' : `up to ${round(100 * at / 16)} %`);

// Cells in the order of addresses, as lines of a text; empty ones are red, full ones blue.
function mapChart(moment) {
  const cells = moment.map.live_per_mille;
  const columns = 96;
  const rows = Math.ceil(cells.length / columns);
  const [empty, full] = [palette(theme.matches ? 2 : 1), palette(0)]
    .map((text) => text.match(/\w\w/g).map((part) => parseInt(part, 16)));
  const mixed = (part) => full.map((to, i) => Math.round(empty[i] + (to - empty[i]) * part));
  const draw = { afterDraw: ({ ctx, chartArea: { left, top, width, height } }) => {
    const size = { x: width / columns, y: Math.min(height / rows, 14) };
    cells.forEach((live, i) => {
      ctx.fillStyle = `rgb(${mixed(live / 1000).join(', ')})`;
      ctx.fillRect(left + (i % columns) * size.x, top + Math.floor(i / columns) * size.y,
        size.x - 0.5, size.y - 0.5);
    });
  } };
  const hidden = { display: false };
  return { type: 'scatter', plugins: [draw], data: { datasets: [] },
    options: chartOptions({ plugins: { legend: hidden }, scales: { x: hidden, y: hidden } }) };
}

function blameChart(moment) {
  const blames = moment.sparse.by_size;
  const unit = unitFor(blames.map((one) => one.kept_bytes));
  return lyingBars(blames.map((one) => countText(one.size)),
    blames.map((one) => one.kept_bytes / unit.bytes), palette(1), `${unit.name} kept`);
}

const resident = (moment) => moment.pages * moment.page_bytes;
const unused = (moment) => resident(moment) - moment.live_bytes;

function momentFigures(moment) {
  const where = `Under ${data.under.allocator}, ${momentText(moment)}`;
  const { sparse } = moment;
  return [
    { title: `${where}: the heap`, there: moment.pages > 0, config: () => mapChart(moment),
      text: `${countText(moment.pages)} resident pages in the order of their addresses; blue: full `
        + `of what is alive, ${theme.matches ? 'red' : 'orange'}: empty. `
        + `${bytesText(unused(moment))} of ${bytesText(resident(moment))} are not live.`,
      label: () => `${bytesText(unused(moment))} are not live`,
      table: () => ({ head: ['live of a page', 'pages'],
        rows: moment.pages_by_fullness
          .map((count, at) => [fullnessText(at), countText(count)]) }) },
    { title: `${where}: what keeps it`, there: sparse.objects > 0,
      config: () => blameChart(moment),
      text: `${bytesText(sparse.kept_bytes)} lie unused in ${countText(sparse.pages)} pages that `
        + `are at most a quarter full, kept by ${countText(sparse.objects)} objects of these `
        + `sizes. Without the oldest tenth of them, ${bytesText(sparse.without_oldest[1])} less.`,
      label: () => sparse.by_size.slice(0, 3).map((one) => `${one.size} bytes`).join(', '),
      table: () => ({ head: ['bytes', 'objects', 'keep', 'made by calls from', 'to'],
        rows: sparse.by_size.map((one) => [countText(one.size), countText(one.objects),
          bytesText(one.kept_bytes), countText(one.first_call), countText(one.last_call)]) }) },
  ];
}

// ---- the page ----

const foreign = sum(data.threads.map((lane) => lane.foreign));

showFigures([
  { title: 'Memory over time', wide: true, config: memory, there: seconds.length > 1,
    text: 'What was alive, as the program asked for it, and what it cost.',
    label: () => `${bytesText(data.peak.bytes)} alive at most`,
    table: () => ({ head: ['seconds', 'alive', 'heap', 'RSS'],
      rows: timeTable(time, 'most_live_bytes', 'heap_bytes', 'rss_bytes') }) },
  { title: 'Objects made and ended', config: rate, there: seconds.length > 1,
    text: 'Between ticks of the recording.',
    label: () => `${countText(data.made)} objects in all`,
    table: () => ({ head: ['seconds', 'calls', 'made', 'ended', 'reallocs'],
      rows: timeTable(time, 'calls', 'made', 'ended', 'reallocs') }) },
  { title: 'Sizes', config: sizesChart, there: data.made > 0,
    text: 'Which sizes make how much of the objects, of the bytes, and of the peak.',
    label: () => `${sizes.size.length} different sizes`,
    table: () => ({ head: ['size from', 'objects', 'bytes', 'at the peak'],
      rows: magnitudes.map((text, at) => [text, countText(bySizes.made[at]),
        bytesText(bySizes.bytes[at]), bytesText(bySizes.peak_bytes[at])]) }) },
  { title: 'The most frequent sizes',
    config: () => topChart('made', 0, data.made, 'per cent of all objects'),
    there: data.made > 0, text: 'Exact sizes, as asked for.',
    label: () => largest('made', 3).map(textOfSize).join(', '),
    table: () => ({ head: ['bytes', 'objects'], rows: topTable('made', countText) }) },
  { title: 'The sizes that held most at the peak', there: data.peak.bytes > 0,
    config: () => topChart('peak_bytes', 2, data.peak.bytes, 'per cent of the bytes alive then'),
    text: `The peak is behind call ${countText(data.peak.call)}.`,
    label: () => largest('peak_bytes', 3).map(textOfSize).join(', '),
    table: () => ({ head: ['bytes', 'in all'], rows: topTable('peak_bytes', bytesText) }) },
  { title: 'The sizes that are left at the end', there: data.end.bytes > 0,
    config: () => topChart('end_bytes', 1, data.end.bytes, 'per cent of the bytes alive then'),
    text: `${countText(data.end.objects)} objects live to the end, ${bytesText(data.end.bytes)}.`,
    label: () => largest('end_bytes', 3).map(textOfSize).join(', '),
    table: () => ({ head: ['bytes', 'in all'], rows: topTable('end_bytes', bytesText) }) },
  { title: 'Size and lifetime', config: lifetimes, there: data.ended > 0,
    text: 'Objects that ended; the colour is logarithmic.',
    label: () => `half live for at most ${data.lifetimes.calls.p50[1]} calls`,
    table: () => ({ head: ['size from', 'calls from', 'objects'],
      rows: rowsOf(bySize, 'size', 'calls', 'objects') }) },
  { title: 'What was alive, by age', config: agesChart, there: data.made > 0,
    text: 'When those objects were made that were alive at the peak, and at the end.',
    label: () => `${bytesText(data.end.bytes)} alive at the end`,
    table: () => ({ head: ['calls from', 'at the peak', 'at the end'],
      rows: rowsOf(ages, 'piece', 'peak_bytes', 'end_bytes')
        .map(([piece, ...bytes]) => [countText(piece * ages.calls_per_piece),
          ...bytes.map(bytesText)]) }) },
  { title: 'What rounding up adds', better: 'less is better', config: rounding,
    there: data.bytes > 0,
    text: 'By the size classes of each allocator; full colour: at the peak, pale: all objects.',
    label: () => allocators.map((name) => `${name} ${added(name).peak}`).join(', '),
    table: () => ({ head: ['allocator', 'at the peak', 'all objects'],
      rows: allocators.map((name) => [name, added(name).peak, added(name).all]) }) },
  { title: 'Who ends whose objects', config: threadsChart, there: data.threads.length > 1,
    text: `${share(foreign, data.ended)} of the objects are ended by another thread than made them.`
      + (data.threads.length > lanes.length
        ? ` The ${lanes.length} threads with the most calls.` : ''),
    label: () => `${share(foreign, data.ended)} by another thread`,
    table: () => ({ head: ['thread', 'calls', 'made', 'bytes', 'ended', 'of others', 'longest turn',
      'at the peak', 'at the end'], rows: threadRows() }) },
  { title: 'How much reallocs grow', config: growthChart, there: data.reallocs.calls > 0,
    text: `${countText(data.reallocs.moved)} of ${countText(data.reallocs.calls)} moved and copied `
      + `${bytesText(data.reallocs.copied_bytes)}.`,
    label: () => `${countText(data.reallocs.grown)} grow`,
    table: () => ({ head: ['new by old size, up to', 'calls'],
      rows: rowsOf(data.reallocs.growth, 'up_to', 'calls')
        .map(([limit, calls]) => [limit ?? 'more', countText(calls)]) }) },
  { title: 'How far calls went', config: depthsChart, there: byClass.length > 0,
    text: 'By the size class of the object; those with most calls beyond the thread cache.',
    label: () => byClass.slice(0, 3).map(classText).join(', '), height: 26,
    table: () => ({ head: ['size class', ...DEPTHS],
      rows: byClass.map((one) => [classText(one), ...one.calls.map(countText)]) }) },
  { title: 'Memory from the system', config: systemChart, there: depths.timeline.length > 1,
    text: 'Taken and given back between ticks, by calls of the program.',
    label: () => `${bytesText(sum(depths.timeline.map((row) => row.taken_bytes)))} in all`,
    table: () => ({ head: ['seconds', 'taken', 'given back', 'waits for locks'],
      rows: depths.timeline.filter((_, i) => i % Math.ceil(depths.timeline.length / 100) === 0)
        .map((row) => [round(row.end_ns / 1e9, 5), bytesText(row.taken_bytes),
          bytesText(row.released_bytes), countText(row.waits)]) }) },
  ...(data.under ? data.under.moments.flatMap(momentFigures) : []),
].filter((figure) => figure.there), document.getElementById('charts'));

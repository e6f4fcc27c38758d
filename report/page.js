const { numbers, sizes } = data;

// ---- over time ----

const time = data.timeline;
const seconds = secondsOf(time);
const steps = seconds.map((end, i) => end - (i > 0 ? seconds[i - 1] : 0));

function memory() {
  const unit = unitFor([...time.rss_bytes, ...time.heap_bytes, ...time.most_live_bytes]);
  const line = (label, key, at) => ({ label, seconds, at,
    values: time[key].map((value) => (value > 0 ? value / unit.bytes : null)) });
  const vmSize = { label: 'VmSize (click)', seconds, at: 4, hidden: true,
    values: (data.statistics.timeline.vm_size_bytes ?? [null]).map((value) => value && value / unit.bytes) };
  return timeChart(unit.name, [line('alive, as asked for', 'most_live_bytes', 0),
    line('heap', 'heap_bytes', 1), line('RSS of the program', 'rss_bytes', 3), vmSize]);
}

// ---- who has RSS ----

const rss = data.rss ?? { over_time: { end_ns: [], owners: [] } };

// The largest owners, and all others together, as stacked areas; in the order of the text.
function ownersChart() {
  const { owners } = rss.over_time;
  const most = ({ bytes }) => Math.max(...bytes);
  const large = [...owners].sort((a, b) => most(b) - most(a)).slice(0, 6);
  const shown = owners.filter((one) => large.includes(one));
  const others = owners.filter((one) => !large.includes(one));
  if (others.length > 0)
    shown.push({ owner: 'others', bytes: others[0].bytes.map((_, i) => sum(others.map(({ bytes }) => bytes[i]))) });
  const unit = unitFor(others.concat(shown).map(most));
  const chart = timeChart(unit.name, shown.map(({ owner, bytes }, at) => ({ label: shortName(owner, 60),
    seconds: secondsOf(rss.over_time), at, values: bytes.map((value) => value / unit.bytes),
    fill: at > 0 ? '-1' : 'origin' })));
  chart.data.datasets.forEach((one) => Object.assign(one, { borderWidth: 0, pointStyle: 'rect' }));
  chart.options.scales.y.stacked = true;
  return chart;
}

const ownerRows = () => objectsOf(rss.owners).map((one) => [one.owner, one.kind, bytesText(one.bytes),
  share(one.bytes, rss.peak.bytes), bytesText(one.end_bytes)]);

// ---- what the allocator says of itself ----

const statistics = data.statistics.timeline;
const names = Object.keys(statistics)
  .filter((name) => !['vm_size_bytes', 'rss_shared_bytes'].includes(name) && statistics[name].some((value) => value > 0));
const drawn = names.filter((name) => name.endsWith('_bytes') && !name.includes('threshold'));
const nameText = (name) => name.replace(/_bytes$/, '').replaceAll('_', ' ');
const valueText = (name, value) => (name.endsWith('_bytes') ? bytesText(value) : countText(value));

function allocatorStatistics() {
  const columns = { ...time, ...statistics };
  const unit = unitFor(['rss_bytes', 'heap_bytes', ...drawn].flatMap((name) => columns[name]));
  const line = (label, name, at) => ({ label, seconds, at,
    values: columns[name].map((value) => value / unit.bytes) });
  return timeChart(unit.name, [line('RSS of the program', 'rss_bytes', 3),
    line('heap', 'heap_bytes', 1),
    ...drawn.map((name, i) => line(nameText(name), name, [0, 2, 4, 5, 6][i] ?? i + 2))]);
}

const eventRows = () => data.statistics.events.map((one) => [String(round(one.ns / 1e9, 5)),
  one.event, nameText(one.name), valueText(one.name, one.before), valueText(one.name, one.after)]);

function rate() {
  const line = (label, key, at) => ({ label, seconds, at,
    values: time[key].map((value, i) => (steps[i] > 0 ? value / steps[i] : null)) });
  return timeChart('per second', [line('objects made', 'made', 0),
    line('objects ended', 'ended', 1), line('of both, by reallocs', 'reallocs', 2)], true);
}

// The six most frequent kinds of calls, and all others together, as stacked areas.
function kinds() {
  const total = (kind) => data.by_kind[kind] ?? 0;
  const names = Object.keys(time.by_kind).sort((a, b) => total(b) - total(a));
  const shown = names.slice(0, 5).map((name) => [name, time.by_kind[name]]);
  const others = names.slice(5).map((name) => time.by_kind[name]);
  if (others.length > 0)
    shown.push(['others', seconds.map((_, i) => sum(others.map((counts) => counts[i])))]);
  return stackedChart('calls per second', seconds, shown.map(([label, counts]) => ({ label,
    values: counts.map((count, i) => (steps[i] > 0 ? count / steps[i] : null)) })));
}

const rowsOfKinds = () => Object.entries(data.by_kind).sort((a, b) => b[1] - a[1])
  .map(([kind, calls]) => [kind, countText(calls), share(calls, numbers.calls)]);

// ---- sizes ----

const bySizes = Object.fromEntries(['made', 'bytes', 'peak_bytes']
  .map((key) => [key, byMagnitude(sizes, 'size', key)]));
const magnitudes = bySizes.made.map((_, at) => magnitudeText(at));

function sizesChart() {
  const bars = (label, key, whole, at) => ({ label, at,
    data: bySizes[key].map((value) => 100 * value / Math.max(whole, 1)) });
  return standingBars(magnitudes, [bars('of all objects', 'made', numbers.objects, 0),
    bars('of all bytes asked for', 'bytes', numbers.bytes, 1),
    bars('of the bytes at the peak', 'peak_bytes', numbers.peak_live, 2)],
  'size: from so much to less than twice as much', 'per cent');
}

function largest(key, count = 15) {
  return sizes.size.map((_, i) => i).filter((i) => sizes[key][i] > 0)
    .sort((a, b) => sizes[key][b] - sizes[key][a]).slice(0, count);
}

const textOfSize = (i) => sizeText(sizes.size[i], sizes.highest[i]);

const topTable = (key, name, text) => ({ head: ['bytes', name],
  rows: largest(key, 100).map((i) => [textOfSize(i), text(sizes[key][i])]) });

function topChart(key, at, whole, unit) {
  const entries = largest(key);
  return lyingBars(entries.map(textOfSize), entries.map((i) => 100 * sizes[key][i] / whole),
    palette(at), unit);
}

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
  const width = Math.ceil((numbers.calls / ages.calls_per_piece + 1) / pieces);
  const unit = unitFor([numbers.peak_live / 8]);
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
const colourOf = (name) => allocatorColour(name.split(' ')[0]);

function rounding() {
  const bars = (label, key, whole, light) => ({ label,
    data: allocators.map((name) => 100 * (data.rounding[name][key] - whole) / Math.max(whole, 1)),
    backgroundColor: allocators.map((name) => colourOf(name) + light),
    borderColor: allocators.map(colourOf), borderWidth: 1 });
  return { type: 'bar', data: { labels: allocators, datasets: [
    bars('at the peak', 'peak_taken', numbers.peak_live, ''),
    bars('of all objects (pale)', 'taken', numbers.bytes, '60')] },
  options: chartOptions({ plugins: { legend: { display: false } },
    scales: { x: { grid: { display: false } },
      y: axis('per cent of what was asked for', { beginAtZero: true }) } }) };
}

// The bytes that rounding adds at the peak, by the magnitude of the size class.
const addedBySize = allocators.map((name) => {
  const { size, peak_taken: taken, peak_bytes: bytes } = data.rounding[name].classes;
  return byMagnitude({ size, added: taken.map((of, i) => of - bytes[i]) }, 'size', 'added');
});

function roundingBySize() {
  const labels = powers(1, Math.max(...addedBySize.map((of) => of.length)) - 1);
  const unit = unitFor(addedBySize.flat());
  const chart = standingBars(labels.map(magnitudeText), allocators.map((label, i) => ({ label,
    at: i, data: labels.map((at) => (addedBySize[i][at] ?? 0) / unit.bytes) })),
  'size class: from so much to less than twice as much', `${unit.name} at the peak`);
  chart.data.datasets.forEach((one, i) => { one.backgroundColor = colourOf(allocators[i]); });
  return chart;
}

// ---- threads ----

const lanes = objectsOf(data.threads).sort((a, b) => b.calls - a.calls).slice(0, 32)
  .sort((a, b) => a.lane - b.lane);
const laneText = (lane) => (lane.threads === 1 ? String(lane.thread) : `lane ${lane.lane}`);

function threadsChart() {
  const place = new Map(lanes.map((lane, i) => [lane.lane, i]));
  const cells = lanes.map((lane, i) => ({ x: i, y: i, count: lane.ended - lane.remote_frees }));
  for (const [owner, ender, count] of rowsOf(data.remote_frees, 'made_by', 'ended_by', 'objects'))
    if (place.has(owner) && place.has(ender))
      cells.push({ x: place.get(ender), y: place.get(owner), count });
  const labels = lanes.map(laneText);
  return heat(cells.filter((cell) => cell.count > 0), labels, labels, 'ended by thread',
    'made by thread');
}

const threadRows = () => lanes.map((lane) => [laneText(lane), countText(lane.calls),
  countText(lane.made), bytesText(lane.bytes), countText(lane.ended), countText(lane.remote_frees),
  countText(lane.longest_turn), bytesText(lane.peak_bytes), bytesText(lane.end_bytes)]);

// ---- glibc's arenas, if the recording has addresses ----

const arenas = data.arenas ? objectsOf(data.arenas.all) : [];
const arenaText = (arena, i) => (i === 0 ? 'main' : arena.begin.toString(16));
const arenaCalls = (arena) => arena.made + arena.ended;
const arenaEnds = (key) => sum(arenas.map((arena) => arena[key]));

// The threads that make most objects.
function arenasChart() {
  const uses = objectsOf(data.arenas.by_thread).filter(({ made }) => made > 0);
  const of = ({ lane, thread }) => `${lane} ${thread}`;
  const threads = [...new Map(uses.sort((a, b) => b.made - a.made).map((use) => [of(use), use])).values()]
    .slice(0, 32).sort((a, b) => a.lane - b.lane);
  const place = new Map(threads.map((use, i) => [of(use), i]));
  const cells = uses.filter((use) => use.arena < 32 && place.has(of(use)))
    .map((use) => ({ x: place.get(of(use)), y: use.arena, count: use.made }));
  return heat(cells, threads.map(({ thread }) => String(thread)), arenas.slice(0, 32).map(arenaText),
    'made by thread', 'in the arena at');
}

function arenaRows() {
  const calls = sum(arenas.map(arenaCalls)) + data.arenas.mapped_made + data.arenas.mapped_ended;
  return arenas.map((arena, i) => [arenaText(arena, i), countText(arena.heaps),
    bytesText(arena.bytes), countText(arena.threads), countText(arena.made),
    share(arenaCalls(arena), calls), countText(arena.ended), countText(arena.remote_frees)]);
}

// ---- made since a program was attached to, and alive at the end ----

const { growth } = data;
const grown = growth ? objectsOf(growth.by_age).filter(({ bytes }) => bytes > 0).reverse() : [];

function oldness({ ms }) {
  if (ms === 0) return 'less than 1 s';
  return ms < 60000 ? `${ms / 1000} s and more`
    : ms < 3600000 ? `${ms / 60000} min and more` : '1 h and more';
}

function grownChart() {
  const unit = unitFor(grown.map(({ bytes }) => bytes));
  return lyingBars(grown.map(oldness), grown.map(({ bytes }) => bytes / unit.bytes), palette(1),
    unit.name, 'age');
}

// ---- reallocs ----

function growthChart() {
  const { up_to: limits, calls } = data.reallocs.growth;
  const labels = limits.map((limit, i) => (limit === null ? `> ${limits[i - 1]}` : `≤ ${limit}`));
  return standingBars(labels, [{ label: 'reallocs', data: calls, at: 2 }],
    'new size divided by the old one', 'calls');
}

// ---- how far calls go: report --depths ----

const DEPTHS = ['thread cache', 'central list', 'page heap', 'the system'];
const NO_DEPTHS = { paths: { class: [] }, timeline: { end_ns: [] } };
const depths = data.depths ?? NO_DEPTHS;
const depthOf = (path) => 'CPS'.split('').reduce((far, letter, i) =>
  (path.includes(letter) ? i + 1 : far), 0);

// Calls by size class; those with most calls that the cache alone did not serve come first.
const byClass = Object.values(rowsOf(depths.paths, 'class', 'bytes', 'path', 'calls')
  .reduce((all, [of, bytes, path, calls]) => {
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

const depthsTime = depths.timeline;

// Shows only calls that went beyond the cache, because nearly all others do not.
function depthsOverTime() {
  const part = (label, key, at) => ({ label, seconds: secondsOf(depthsTime), at,
    values: depthsTime[key].map((count, i) => 100 * count / Math.max(depthsTime.calls[i], 1)) });
  return timeChart('per cent of the calls', [part('beyond the thread cache', 'beyond_cache', 1),
    part('to the page heap', 'page_heap', 2), part('to the system', 'system', 3)], true);
}

function systemChart() {
  const unit = unitFor([...depthsTime.taken_bytes, ...depthsTime.released_bytes]);
  const line = (label, key, at) => ({ label, seconds: secondsOf(depthsTime), at,
    values: depthsTime[key].map((bytes) => bytes / unit.bytes) });
  return timeChart(unit.name, [line('taken from the system', 'taken_bytes', 1),
    line('given back', 'released_bytes', 0)], true);
}

// ---- what keeps pages resident: report --under ----

const TIMES = { peak_rss: 'where RSS was largest', peak_live: 'where most was alive',
  end: 'at the end' };
const snapshotText = (snapshot) => snapshot.at.map((name) => TIMES[name]).join(', ');
const fullnessText = (at) => (at === 0 ? 'no object' : `up to ${round(100 * at / 16)} %`);

// Cells in the order of addresses, line by line; empty ones are red, full ones blue.
function mapChart(snapshot) {
  const cells = snapshot.map.live_per_mille;
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

function blameChart(names, kept, of) {
  const unit = unitFor(kept);
  return lyingBars(names, kept.map((bytes) => bytes / unit.bytes), palette(1),
    `${unit.name} kept`, of);
}

// The code that made the objects that keep pages resident.
function blameOfCode(where, { kept_bytes: all, by_code: codes }) {
  const { name = [], kept_bytes: kept = [] } = codes ?? {};
  return { title: `${where}: which code keeps it`, there: name.length > 0,
    height: 8 + 1.4 * name.length,
    config: () => blameChart(name.map((one) => shortName(one)), kept, ''),
    text: 'The code that made the objects which keep those pages.',
    table: () => ({ head: [data.code.by, 'objects', 'keep', 'share', 'made by calls from', 'to'],
      rows: rowsOf(codes, 'name', 'objects', 'kept_bytes', 'first_call', 'last_call')
        .map(([one, objects, bytes, ...calls]) =>
          [one, objects, bytesText(bytes), share(bytes, all), ...calls]) }) };
}

const resident = (snapshot) => snapshot.pages * snapshot.page_bytes;
const unused = (snapshot) => resident(snapshot) - snapshot.live_bytes;

function snapshotFigures(snapshot) {
  const where = `Under ${data.under.allocator}, ${snapshotText(snapshot)}`;
  const { sparse } = snapshot;
  return [
    { title: `${where}: the heap`, there: snapshot.pages > 0, config: () => mapChart(snapshot),
      text: `${countText(snapshot.pages)} resident pages in the order of their addresses; blue: full `
        + `of what is alive, ${theme.matches ? 'red' : 'orange'}: empty. `
        + `${bytesText(unused(snapshot))} of ${bytesText(resident(snapshot))} are not live.`,
      table: () => ({ head: ['live of a page', 'pages'],
        rows: snapshot.pages_by_fullness
          .map((count, at) => [fullnessText(at), countText(count)]) }) },
    { title: `${where}: what keeps it`, there: sparse.objects > 0,
      config: () => blameChart(sparse.by_size.size.map(countText), sparse.by_size.kept_bytes),
      text: `${bytesText(sparse.kept_bytes)} are unused in ${countText(sparse.pages)} pages that `
        + `are at most a quarter full, kept by ${countText(sparse.objects)} objects of these `
        + `sizes. Without the oldest tenth of them, ${bytesText(sparse.without_oldest[1])} less.`,
      table: () => ({ head: ['bytes', 'objects', 'keep', 'made by calls from', 'to'],
        rows: rowsOf(sparse.by_size, 'size', 'objects', 'kept_bytes', 'first_call', 'last_call')
          .map(([size, objects, kept, ...calls]) =>
            [size, objects, bytesText(kept), ...calls]) }) },
    blameOfCode(where, sparse),
  ];
}

// ---- the page ----

showFacts(factsOf(data));

const code = data.code ?? NO_CODE;
const codeOverTime = code.tree.name.length > 0
  ? showCode([code], ['this trace'], document.getElementById('charts')) : null;

showFigures([
  { title: 'Memory over time', wide: true, config: memory, there: seconds.length > 1,
    text: 'What was alive, as the program asked for it, and what it cost.' },
  { title: 'Who has RSS, over time', wide: true, config: ownersChart,
    there: rss.over_time.end_ns.length > 1,
    text: 'All of it, when the recorder looked at what was resident.',
    table: () => ({ head: ['owner', 'kind', 'at the peak', 'share', 'at the end'],
      rows: ownerRows() }) },
  { title: 'What the allocator reports about itself', wide: true, config: allocatorStatistics,
    there: drawn.length + data.statistics.events.length > 0 && seconds.length > 1,
    text: `Besides RSS and heap. At the last tick: ${names
      .map((name) => `${nameText(name)} ${valueText(name, data.statistics.last[name])}`)
      .join(', ')}. ${countText(data.statistics.events.length)} events, in the table.`,
    table: () => ({ head: ['seconds', 'event', 'of', 'before', 'after'], rows: eventRows() }) },
  { title: 'Objects made and ended', config: rate, there: seconds.length > 1,
    text: 'Between ticks of the recording.' },
  { title: 'Calls by kind', config: kinds, there: seconds.length > 1,
    text: 'The most frequent kinds, stacked.',
    table: () => ({ head: ['kind', 'calls', ''], rows: rowsOfKinds() }) },
  { title: 'Sizes', config: sizesChart, there: numbers.objects > 0,
    text: 'How much of the objects, of the bytes, and of the peak each size makes up.',
    table: () => ({ head: ['size from', 'objects', 'bytes', 'at the peak'],
      rows: magnitudes.map((text, at) => [text, bySizes.made[at], bytesText(bySizes.bytes[at]),
        bytesText(bySizes.peak_bytes[at])]) }) },
  { title: 'The most frequent sizes',
    config: () => topChart('made', 0, numbers.objects, 'per cent of all objects'),
    there: numbers.objects > 0, text: 'Exact sizes, as requested.',
    table: () => topTable('made', 'objects', countText) },
  { title: 'The sizes that held most at the peak', there: numbers.peak_live > 0,
    config: () => topChart('peak_bytes', 2, numbers.peak_live, 'per cent of the bytes alive then'),
    text: `The peak is after call ${countText(data.others.peak_call)}.`,
    table: () => topTable('peak_bytes', 'in all', bytesText) },
  { title: 'The sizes that are left at the end', there: numbers.end_live > 0,
    config: () => topChart('end_bytes', 1, numbers.end_live, 'per cent of the bytes alive then'),
    text: `${countText(numbers.end_objects)} objects live to the end, `
      + `${bytesText(numbers.end_live)}.`,
    table: () => topTable('end_bytes', 'in all', bytesText) },
  { title: 'Size and lifetime', config: lifetimes, there: numbers.ended > 0,
    text: 'Objects that ended; the colour is logarithmic.',
    table: () => ({ head: ['size from', 'calls from', 'objects'],
      rows: rowsOf(bySize, 'size', 'calls', 'objects') }) },
  { title: 'What was made since recording began and is alive', config: grownChart,
    there: grown.length > 0,
    text: growth ? `By age at the end. ${bytesText(growth.grown_bytes)} in `
      + `${countText(growth.grown_objects)} objects; RSS was ${bytesText(growth.rss_before)} when `
      + `the process was ${growth.forked ? 'forked' : 'attached to'}, and ${bytesText(growth.rss_end)} at the end.` : '',
    table: () => ({ head: ['age', 'objects', 'bytes'],
      rows: grown.map((of) => [oldness(of), countText(of.objects), bytesText(of.bytes)]) }) },
  { title: 'What was alive, by age', config: agesChart, there: numbers.objects > 0,
    text: 'When those objects were made that were alive at the peak, and at the end.' },
  { title: 'What rounding up adds', better: 'less is better', config: rounding,
    there: numbers.bytes > 0,
    text: 'By the size classes of each allocator; full colour: at the peak, pale: all objects.' },
  { title: 'Where rounding up adds', better: 'less is better', config: roundingBySize,
    there: addedBySize.some((of) => sum(of) > 0),
    text: 'What each size class takes at the peak beyond what its objects asked for.' },
  { title: 'Who ends whose objects', config: threadsChart, there: data.threads.lane.length > 1,
    text: `${share(numbers.remote_frees, numbers.ended)} of the objects are ended by another thread `
      + 'than the one that made them.'
      + (data.threads.lane.length > lanes.length
        ? ` The ${lanes.length} threads with the most calls.` : ''),
    table: () => ({ head: ['thread', 'calls', 'made', 'bytes', 'ended', 'of others', 'longest turn',
      'at the peak', 'at the end'], rows: threadRows() }) },
  { title: "Which thread uses which of glibc's arenas", config: arenasChart,
    there: arenas.length > 1, text: `${share(arenaEnds('remote_frees'), arenaEnds('ended'))} of the `
      + 'objects are ended by threads that make most of theirs in another arena.',
    table: () => ({ head: ['arena', 'heaps', 'bytes', 'threads', 'made', 'calls', 'ended',
      'by others'], rows: arenaRows() }) },
  { title: 'How much reallocs grow', config: growthChart, there: numbers.reallocs > 0,
    text: `${countText(numbers.moved)} of ${countText(numbers.reallocs)} moved and copied `
      + `${bytesText(numbers.copied)}.` },
  { title: 'How far calls went', config: depthsChart, height: 26,
    there: byClass.length > 0,
    text: 'By the size class of the object; those with most calls beyond the thread cache.' },
  { title: 'How far calls went over time', config: depthsOverTime,
    there: depthsTime.end_ns.length > 1, text: 'What the thread cache alone did not serve.' },
  { title: 'Memory from the system', config: systemChart, there: depthsTime.end_ns.length > 1,
    text: 'Taken and given back between ticks, by calls of the program.' },
  ...(data.under ? data.under.snapshots.flatMap(snapshotFigures) : []),
].filter((figure) => figure.there), document.getElementById('charts'), codeOverTime);

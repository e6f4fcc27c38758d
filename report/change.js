// Charts of two traces: what changed from `before` to `after`.

const { before, after } = data;
const both = [['before', before, 1], ['after', after, 0]];

// ---- over time ----

function memory() {
  const unit = unitFor(both.flatMap(([, one]) => [...one.timeline.most_live_bytes,
    ...one.timeline.rss_bytes]));
  const line = (label, one, key, at) => ({ label, seconds: secondsOf(one.timeline), at,
    values: one.timeline[key].map((value) => (value > 0 ? value / unit.bytes : null)) });
  return timeChart(unit.name, both.flatMap(([name, one, at]) => [
    line(`alive, ${name}`, one, 'most_live_bytes', at),
    line(`RSS, ${name}`, one, 'rss_bytes', at + 2)]));
}

// ---- numbers ----

const numbers = Object.entries(data.numbers).map(([key, number]) => ({ key, ...number }));
// A number that was 0 before counts as having grown most.
const growth = (one) => one.per_cent ?? Infinity;
const grown = numbers.filter((one) => one.difference)
  .sort((a, b) => (growth(a) === growth(b) ? 0 : growth(b) - growth(a)));
const NUMBER_TEXTS = { count: countText, bytes: bytesText, ms: (n) => `${countText(n)} ms` };
const knownText = (number, text) => (number === null ? '-' : text(number));
const signed = (number, text) => (!number ? ''
  : `${number < 0 ? '−' : '+'} ${text(Math.abs(number))}`);
const perCent = (one) => (one.per_cent === null ? one.difference > 0 ? 'new' : ''
  : signed(round(one.per_cent), (n) => `${n} %`));
const more = (number) => palette(number > 0 ? 1 : 0);

const nameOf = ({ key }) => key.replaceAll('_', ' ');

// Bars end at 200 %, because longer ones would make the others invisible.
const numbersChart = () => lyingBars(grown.map((one) => nameOf(one)),
  grown.map((one) => Math.min(growth(one), 200)), grown.map((one) => more(one.difference)),
  'per cent more, at most 200', '');

// ---- sizes ----

function changed(key, count = 15) {
  return data.sizes.filter((one) => one[key].difference !== 0)
    .sort((a, b) => Math.abs(b[key].difference) - Math.abs(a[key].difference)).slice(0, count);
}

function changedChart(key, unit) {
  const shown = changed(key);
  return lyingBars(shown.map((one) => sizeText(one.size, one.highest)),
    shown.map((one) => one[key].difference / unit.bytes),
    shown.map((one) => more(one[key].difference)), unit.name);
}

const changedTable = (key, text) => ({ head: ['bytes', 'before', 'after', 'difference', ''],
  rows: changed(key, 100).map((one) => [sizeText(one.size, one.highest), text(one[key].before),
    text(one[key].after), signed(one[key].difference, text), perCent(one[key])]) });

const bytesUnit = (key = 'bytes') =>
  unitFor(changed(key).map((one) => Math.abs(one[key].difference)));
const changedBytes = (key) => changedChart(key,
  { ...bytesUnit(key), name: `${bytesUnit(key).name} more` });

// ---- code: rows matched by name ----

const codeRows = data.code ?? [];
const CODE = [['bytes', 'by bytes asked for', bytesText], ['objects', 'by objects made', countText],
  ['peak_live', 'alive at the peak', bytesText], ['end_live', 'alive at the end', bytesText],
  ['short_lived', 'gone within 100 calls', countText], ['grown', 'grown by realloc or copy', bytesText],
  ['remote_frees', 'ended by another thread', countText], ['freed', 'that free', countText],
  ['freed_remote', 'that free remote objects', countText]];
function codeFigure([key, title, text]) {
  const rows = codeRows.filter((row) => row[key].difference !== 0)
    .sort((a, b) => Math.abs(b[key].difference) - Math.abs(a[key].difference));
  const shown = rows.slice(0, 15);
  const unit = text === bytesText ? unitFor(shown.map((row) => Math.abs(row[key].difference)))
    : { name: 'objects', bytes: 1 };
  return { title: `${after.code?.by ?? 'function'}s, ${title}: what changed most`,
    there: rows.length > 0, height: 8 + 1.4 * shown.length,
    text: 'Itself, without what it calls.',
    config: () => lyingBars(shown.map((row) => shortName(row.name)),
      shown.map((row) => row[key].difference / unit.bytes),
      shown.map((row) => more(row[key].difference)), `${unit.name} more`, ''),
    table: () => ({ head: [after.code?.by ?? 'function', 'before', 'after', 'difference', ''],
      rows: rows.slice(0, 100).map((row) => [row.name, text(row[key].before), text(row[key].after),
        signed(row[key].difference, text), perCent(row[key])]) }) };
}

// ---- both side by side ----

// The sums of a column of a table, by the magnitude of another one.
function sums(tableOfOne, of, key) {
  const rows = both.map(([, one]) => byMagnitude(tableOfOne(one), of, key));
  const most = Math.max(...rows.map((row) => row.length));
  return rows.map((row) => powers(0, most - 1).map((at) => row[at] || 0));
}

const sides = (rows, unit) => both.map(([label, , at], i) => ({ label, at,
  data: rows[i].map((value) => value / unit) }));

const atPeak = sums((one) => one.sizes, 'size', 'peak_bytes');
const lived = sums((one) => one.lifetimes.by_size, 'calls', 'objects');
const livedText = (at) => (at === 0 ? '0' : countText(2 ** (at - 1)));
const peakUnit = unitFor(atPeak.flat());

// ---- the page ----

showFacts(factsOf(before, 'Before'));
showFacts(factsOf(after, 'After'));

const codes = [before.code, after.code];
const codeOverTime = codes.every((code) => code?.tree.name.length > 0)
  ? showCode(codes, ['before', 'after'], document.getElementById('charts')) : null;

showFigures([
  { title: 'Memory over time', wide: true, config: memory,
    there: both.some(([, one]) => one.timeline.end_ns.length > 1),
    text: 'What was alive, as the program asked for it, and what it cost.' },
  { title: 'What grew', config: numbersChart, there: grown.length > 0,
    text: 'The numbers that differ, and by how much.', height: 8 + 1.4 * grown.length,
    table: () => ({ head: ['', 'before', 'after', 'difference', ''],
      rows: numbers.map((one) => [nameOf(one),
        ...['before', 'after'].map((when) => knownText(one[when], NUMBER_TEXTS[one.unit])),
        signed(one.difference, NUMBER_TEXTS[one.unit]), perCent(one)]) }) },
  ...CODE.map(codeFigure),
  { title: 'Objects by size, what changed most', there: changed('made').length > 0,
    config: () => changedChart('made', { name: 'objects more', bytes: 1 }),
    text: 'Exact sizes, as requested.',
    table: () => changedTable('made', countText) },
  { title: 'Bytes by size, what changed most', there: changed('bytes').length > 0,
    config: () => changedBytes('bytes'),
    text: 'Of all objects of a size together.',
    table: () => changedTable('bytes', bytesText) },
  { title: 'Alive at the end, what changed most', there: changed('end_bytes').length > 0,
    config: () => changedBytes('end_bytes'), text: 'By size: a leak that appeared, or was fixed.',
    table: () => changedTable('end_bytes', bytesText) },
  { title: 'Alive at the peak, what changed most', there: changed('peak_bytes').length > 0,
    config: () => changedBytes('peak_bytes'), text: 'By size, each trace at its own peak.',
    table: () => changedTable('peak_bytes', bytesText) },
  { title: 'What was alive at the peak', there: before.numbers.peak_live + after.numbers.peak_live > 0,
    config: () => standingBars(atPeak[0].map((_, at) => magnitudeText(at)),
      sides(atPeak, peakUnit.bytes), 'size: from so much to less than twice as much',
      peakUnit.name),
    text: `The peak is after call ${countText(before.others.peak_call)} before, ${
      countText(after.others.peak_call)} after.` },
  { title: 'How long objects live', there: before.numbers.ended + after.numbers.ended > 0,
    config: () => standingBars(lived[0].map((_, at) => livedText(at)), sides(lived, 1),
      'lived for so many calls, or less than twice as many', 'objects'),
    text: 'Objects that ended.' },
].filter((figure) => figure.there), document.getElementById('charts'), codeOverTime);

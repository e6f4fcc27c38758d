// ---- code: memory over time by the functions that hold most, and the stretch that one looks at ----

const TIME_FUNCTIONS = 10;
const isNarrow = matchMedia('(max-width: 40rem)');

// What each function holds at the ends of the buckets: { index of the row: [bytes] }.
function codeHeld({ times, rows }) {
  const count = times.end_call.length;
  const held = rows.name.map(() => null);
  times.rows.of.forEach((of, i) => {
    held[of] ??= new Array(count).fill(0);
    held[of][times.rows.bucket[i]] += times.rows.bytes[i] - times.rows.ended_bytes[i];
  });
  for (const bytes of held.filter((one) => one !== null))
    for (let at = 1; at < count; at += 1) bytes[at] += bytes[at - 1];
  return held;
}

// The functions that hold most at some time, and all others, as [{ label, values }].
function codeHolders(code) {
  const held = codeHeld(code);
  const most = (row) => Math.max(...held[row]);
  const rows = held
    .map((_, row) => row)
    .filter((row) => held[row] !== null)
    .sort((a, b) => most(b) - most(a));
  const areas = rows
    .slice(0, TIME_FUNCTIONS)
    .filter((row) => most(row) > 0)
    .map((row) => ({ label: code.rows.name[row], values: held[row] }));
  const others = rows.slice(TIME_FUNCTIONS);
  if (others.length > 0)
    areas.push({
      label: 'others',
      values: held[others[0]].map((_, at) => sum(others.map((row) => held[row][at]))),
    });
  return areas;
}

// Seven colours, and the same ones again, paler; others are grey.
const areaColour = (at) => (at < TIME_FUNCTIONS ? palette(at) + (at < 7 ? '' : '80') : '#88888880');

// `change({ from, until } | null)` is called with a range in seconds, or in calls.
function codeTime(codes, names, { change }) {
  const ends = codeEnds(codes.at(-1).times);
  const hasClock = codes.at(-1).times.end_ns[0] !== null;
  const last = ends.length;
  // --from and --to: the stretch that was asked for.
  const { range: asked } = codes.at(-1);
  const asBucket = (ns) => ends.filter((end) => end <= ns / 1e9 + 1e-9).length;
  let from = asked ? Math.min(asBucket(asked.from_ns), last - 1) : 0;
  let until = asked && asked.to_ns !== null ? Math.max(asBucket(asked.to_ns), from + 1) : last;
  let chart = null;
  const canvas = make('canvas', {
    role: 'img',
    'aria-label': 'alive over time, by function: the range below chooses a stretch',
  });
  const begin = (at) => (at === 0 ? 0 : ends[at - 1]);
  const timeText = (value) => (hasClock ? `${round(value, 4)} s` : `call ${countText(value)}`);
  const says = make('span', { className: 'quiet' });
  const whole = make('button', { type: 'button', textContent: 'whole time', onclick: () => set(0, last) });
  const slider = (label, input) =>
    make('input', {
      type: 'range',
      min: '0',
      max: String(last),
      step: '1',
      'aria-label': label,
      oninput: input,
    });
  const low = slider('from', () => set(Math.min(Number(low.value), until - 1), until));
  const high = slider('until', () => set(from, Math.max(Number(high.value), from + 1)));

  function set(newFrom, newUntil) {
    [from, until] = [newFrom, newUntil];
    [low.value, high.value] = [String(from), String(until)];
    const isWhole = from === 0 && until === last;
    whole.hidden = isWhole;
    says.textContent = `${isWhole ? 'the whole time, ' : ''}${timeText(begin(from))} to ${timeText(begin(until))}`;
    chart?.draw();
    change(isWhole ? null : { from: begin(from), until: begin(until) });
  }
  const shade = {
    id: 'range',
    afterDatasetsDraw: ({ ctx, chartArea: { left, right, top, bottom }, scales: { x } }) => {
      if (from === 0 && until === last) return;
      const [a, b] = [x.getPixelForValue(begin(from)), x.getPixelForValue(begin(until))];
      ctx.fillStyle = theme.matches ? 'rgba(22, 22, 26, .72)' : 'rgba(255, 255, 255, .75)';
      ctx.fillRect(left, top, a - left, bottom - top);
      ctx.fillRect(b, top, right - b, bottom - top);
      ctx.strokeStyle = variable('--text');
      ctx.strokeRect(a, top, b - a, bottom - top);
    },
  };
  function config() {
    const areas =
      codes.length > 1
        ? codes.map((code, side) => ({
            label: names[side],
            code,
            values: codeHolders(code).reduce(
              (all, { values }) => values.map((value, i) => value + (all[i] ?? 0)),
              [],
            ),
          }))
        : codeHolders(codes[0]).map((area) => ({ ...area, code: codes[0] }));
    const unit = unitFor(areas.flatMap(({ values }) => values));
    const made = timeChart(
      unit.name,
      areas.map(({ label, values, code }, at) => ({
        label: shortName(label, isNarrow.matches ? 24 : 48),
        at,
        seconds: [0, ...codeEnds(code.times)],
        // Estimates of what was made and of what ended may differ by a little less than nothing.
        values: [0, ...values].map((value) => Math.max(0, value) / unit.bytes),
        ...(codes.length > 1 ? {} : { fill: at > 0 ? '-1' : 'origin' }),
      })),
    );
    if (codes.length === 1) {
      made.data.datasets.forEach((one, at) =>
        Object.assign(one, { borderWidth: 0, pointStyle: 'rect', backgroundColor: areaColour(at) }),
      );
      made.options.scales.y.stacked = true;
    }
    made.options.scales.x.max = Math.max(...codes.map((code) => codeEnds(code.times).at(-1)));
    made.options.scales.x.title.text = hasClock
      ? 'seconds: drag to look at a part'
      : 'calls: drag to look at a part';
    made.options.plugins.legend = {
      position: 'bottom',
      labels: { boxWidth: 8, boxHeight: 8, padding: 6, usePointStyle: true, font: { size: 11 } },
    };
    made.plugins = [shade];
    return made;
  }
  // The place between buckets that is nearest to the pointer.
  function placeOf(event) {
    const value = chart.scales.x.getValueForPixel(event.clientX - canvas.getBoundingClientRect().left);
    let near = 0;
    for (let at = 1; at <= last; at += 1)
      if (Math.abs(begin(at) - value) < Math.abs(begin(near) - value)) near = at;
    return near;
  }
  let began = null;
  canvas.onpointerdown = (event) => {
    if (event.offsetY > chart.chartArea.bottom) return; // the legend
    began = placeOf(event);
    canvas.setPointerCapture?.(event.pointerId);
  };
  canvas.onpointermove = (event) => {
    const here = began === null ? null : placeOf(event);
    if (here !== null && here !== began) set(Math.min(began, here), Math.max(began, here));
  };
  canvas.onpointerup = (event) => {
    if (began !== null && placeOf(event) === began) set(0, last);
    began = null;
  };
  canvas.onpointercancel = () => {
    began = null;
  };
  const caption = make('p', {
    className: 'quiet',
    textContent: `What is alive at the ends of ${last} stretches of time${
      codes.length > 1 ? '' : ', by the functions that hold most'
    }.`,
  });
  return {
    element: make(
      'div',
      { className: 'time' },
      caption,
      make('div', { className: 'canvas' }, canvas),
      make('div', { className: 'range' }, low, high),
      make('div', { className: 'controls' }, says, whole),
    ),
    draw() {
      chart?.destroy();
      chart = new Chart(canvas, config());
      set(from, until);
    },
  };
}

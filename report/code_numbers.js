// ---- code: the numbers of functions and branches, by measure, stretch of time and focus ----
//
//   data.code, or those of two traces --codeModel()--> functions, branches
//   codeNumbers(model, { measure, range, only, without }) --> for each trace ("side"):
//       own[function], total[function], branchOwn[branch], branchTotal[branch], all, and the `whole`
//       that shares are of

const NO_CODE = {
  by: 'function',
  all: {},
  rows: { name: [] },
  where: {},
  tree: { name: [], parent: [] },
  may_leak: { name: [] },
};

// What was alive at the peak and what was mapped, together: most of the process.
function addBoth({ all, rows, tree, where }) {
  if (!(all.mapped > 0)) return;
  const sums = (a, b) => a.map((bytes, i) => bytes + b[i]);
  all.both = all.mapped + all.peak_bytes;
  for (const of of [rows, tree]) of.both = sums(of.mapped, of.peak_bytes);
  rows.total_both = sums(rows.total_mapped, rows.total_peak_bytes);
  where.both = where.peak_bytes.map((text, i) => text || where.mapped[i]);
}

// `inTime`: recomputed for a stretch of time; `of`: how, from sums of it and of all until its end.
const MEASURES = [
  { key: 'bytes', title: 'bytes asked for', text: bytesText, inTime: (it) => it.bytes },
  { key: 'made', title: 'objects made', text: countText, inTime: (it) => it.made },
  { key: 'peak_bytes', title: 'alive at the peak', text: bytesText },
  {
    key: 'end_bytes',
    title: 'alive at the end',
    text: bytesText,
    inTime: (it, until) => until.bytes - until.ended_bytes,
  },
  {
    key: 'end_objects',
    title: 'objects alive at the end',
    text: countText,
    inTime: (it, until) => until.made - until.ended,
  },
  { key: 'short_lived', title: 'gone within 100 calls', text: countText },
  { key: 'grown_bytes', title: 'grown by realloc or copy', text: bytesText },
  { key: 'remote_frees', title: 'ended by another thread', text: countText },
  { key: 'freed_bytes', title: 'bytes freed', text: bytesText },
  { key: 'freed', title: 'objects freed', text: countText },
  { key: 'freed_remote', title: 'remote objects freed', text: countText },
  { key: 'mapped', title: 'resident, mapped', text: bytesText },
  { key: 'both', title: 'alive at the peak, or mapped', text: bytesText },
  { key: 'ended_bytes', title: 'its bytes that ended', text: bytesText, inTime: (it) => it.ended_bytes },
  { key: 'ended', title: 'its objects that ended', text: countText, inTime: (it) => it.ended },
  {
    key: 'grew_bytes',
    title: 'growth: made less ended',
    text: bytesText,
    inTime: (it) => it.bytes - it.ended_bytes,
  },
];
const ONLY_IN_TIME = ['ended_bytes', 'ended', 'grew_bytes'];

// A share as in tables: one digit behind the point at most.
function partText(part, whole) {
  const of = whole === 0 ? 0 : (100 * Math.abs(part)) / Math.abs(whole);
  return of === 0 ? '0 %' : of < 0.1 ? '< 0.1 %' : `${of < 10 ? of.toFixed(1) : Math.round(of)} %`;
}

const signedText = (value, text) => (value < 0 ? `−${text(-value)}` : text(value));

// ---- functions and branches of all sides ----

// For each branch of a side: its function, and whether that is on no branch above it.
function codeOutermost({ parent }, functions) {
  return functions.map((one, i) => {
    let above = parent[i];
    while (above !== null && functions[above] !== one) above = parent[above];
    return above === null;
  });
}

// Branches of several sides with the same path are one: { name, function, parent, children, at },
// at[side] the branch of the side, or -1.
function codeMergeTrees(sides) {
  const roots = [];
  const branches = [];
  sides.forEach(({ code, functions }, side) => {
    const merged = [];
    code.tree.name.forEach((name, i) => {
      const parent = code.tree.parent[i] === null ? null : merged[code.tree.parent[i]];
      const siblings = parent ? parent.byName : (roots.byName ??= new Map());
      let branch = siblings.get(functions[i]);
      if (!branch) {
        branch = {
          name,
          function: functions[i],
          parent,
          children: [],
          byName: new Map(),
          at: sides.map(() => -1),
        };
        siblings.set(functions[i], branch);
        (parent ? parent.children : roots).push(branch);
        branches.push(branch);
      }
      branch.at[side] = i;
      merged.push(branch);
    });
  });
  return { roots, branches };
}

// By function: whether objects count for it; those of libraries and of what wraps malloc count for their
// callers.
function codeOwners(sides, functions) {
  const is = new Uint8Array(functions.length);
  for (const { code, ofRow } of sides)
    for (const { key } of MEASURES)
      code.rows[key]?.forEach((value, row) => {
        if (value > 0) is[ofRow[row]] = 1;
      });
  return is;
}

// The branch that the objects of a branch count for; `parentOf(branch)`: null if it is outermost.
function codeOwnBranch(branch, parentOf, isOwner) {
  let at = branch;
  while (at !== null && !isOwner(at)) at = parentOf(at);
  return at ?? branch;
}

// Names of functions that an interpreter runs.
const codeInterpreted = new Set();

function codeModel(codes) {
  codes.forEach(addBoth);
  const functions = [];
  const byName = new Map();
  const functionOf = (key, name, isListed) => {
    if (!byName.has(key)) {
      byName.set(key, functions.length);
      functions.push({ name, index: functions.length, rows: codes.map(() => -1), isListed });
    }
    return byName.get(key);
  };
  // Of stacks, several rows may have a name.
  const rowsOfSide = ({ rows }) => {
    const seen = new Map();
    return rows.name.map((name) => {
      seen.set(name, (seen.get(name) ?? 0) + 1);
      return functionOf(seen.get(name) > 1 ? `${name}\0${seen.get(name)}` : name, name, true);
    });
  };
  const sides = codes.map((code, side) => {
    const ofRow = rowsOfSide(code);
    ofRow.forEach((one, row) => {
      functions[one].rows[side] = row;
    });
    return { code, ofRow };
  });
  // Branches are of functions: they have rows only if rows are functions, too.
  const areRows = codes.at(-1).by === 'function';
  for (const side of sides) {
    side.code.tree.name.forEach((name, i) => {
      if (side.code.tree.interpreted?.[i] > 0) codeInterpreted.add(name);
    });
    side.functions = side.code.tree.name.map((name) => functionOf(areRows ? name : `\0${name}`, name, areRows));
    side.isOutermost = codeOutermost(side.code.tree, side.functions);
  }
  const isOwner = codeOwners(sides, functions);
  for (const side of sides)
    side.ownBranch = side.functions.map((_, i) =>
      codeOwnBranch(
        i,
        (at) => side.code.tree.parent[at],
        (at) => isOwner[side.functions[at]] === 1,
      ),
    );
  const times = sides.map(({ code }) => code.times).filter((one) => one?.end_call.length > 1);
  return {
    sides,
    functions,
    isOwner,
    ...codeMergeTrees(sides),
    isTimed: times.length === sides.length,
    measures: MEASURES.filter(
      ({ key }) =>
        codes.some((code) => code.all[key] > 0) ||
        (times.length === sides.length && ONLY_IN_TIME.includes(key)),
    ),
  };
}

// ---- numbers ----

// The buckets [from, until) of a side that lie in a range { from, until } of seconds or calls.
const codeEnds = ({ end_ns: ns, end_call: calls }) => (ns[0] === null ? calls : ns.map((end) => end / 1e9));

function codeBuckets(times, range) {
  const ends = codeEnds(times);
  if (range === null) return { from: 0, until: ends.length };
  const near = (end) => ends.filter((one) => one <= end + 1e-9).length;
  return { from: near(range.from), until: Math.max(near(range.until), near(range.from)) };
}

// What `measure` says of the rows of a table of times, by their index.
function codeSumTimes(table, count, { from, until }, measure) {
  const amounts = () => ({ made: 0, bytes: 0, ended: 0, ended_bytes: 0 });
  const within = Array.from({ length: count }, amounts);
  const before = Array.from({ length: count }, amounts);
  table.of.forEach((of, i) => {
    const bucket = table.bucket[i];
    if (bucket >= until) return;
    for (const into of bucket >= from ? [within, before] : [before])
      for (const key of ['made', 'bytes', 'ended', 'ended_bytes']) into[of][key] += table[key][i];
  });
  return Float64Array.from(within, (one, i) => measure.inTime(one, before[i]));
}

const codeIsTimed = (model, { measure, range }) =>
  model.isTimed && measure.inTime && (range !== null || ONLY_IN_TIME.includes(measure.key));

// Whether each branch counts: on a path through the function `only`, and not through `without`.
function codeFocus(
  {
    code: {
      tree: { parent },
    },
    functions,
  },
  { only, without },
) {
  if (only === null && without === null) return null;
  const through = functions.map((one) => [one === only, one === without]);
  parent.forEach((up, i) => {
    if (up !== null) through[i] = through[i].map((is, at) => is || through[up][at]);
  });
  return through.map(([isOnly, isWithout]) => (only === null || isOnly) && !isWithout);
}

function codeNumbersOfSide(model, side, view) {
  const { code, ofRow, functions, isOutermost } = side;
  const { key } = view.measure;
  const isTimed = codeIsTimed(model, view);
  const buckets = isTimed ? codeBuckets(code.times, view.range) : null;
  const values = (table, name) =>
    isTimed
      ? codeSumTimes(code.times[name], table.name.length, buckets, view.measure)
      : Float64Array.from(table[key] ?? table.name, (value) => Number(value) || 0);
  const branchOwn = values(code.tree, 'tree');
  const counts = codeFocus(side, view);
  if (counts)
    counts.forEach((does, i) => {
      if (!does) branchOwn[i] = 0;
    });
  const branchTotal = branchOwn.slice();
  for (let i = branchTotal.length - 1; i >= 0; i -= 1)
    if (code.tree.parent[i] !== null) branchTotal[code.tree.parent[i]] += branchTotal[i];
  const own = new Float64Array(model.functions.length);
  const total = new Float64Array(model.functions.length);
  if (counts)
    branchOwn.forEach((value, i) => {
      own[functions[side.ownBranch[i]]] += value;
    });
  else
    values(code.rows, 'rows').forEach((value, row) => {
      own[ofRow[row]] = value;
    });
  branchTotal.forEach((value, i) => {
    if (isOutermost[i]) total[functions[i]] += value;
  });
  // Small branches are not in the tree: rows know better.
  const known = !counts && !isTimed ? code.rows[`total_${key}`] : null;
  own.forEach((value, i) => {
    if (Math.abs(total[i]) < Math.abs(value)) total[i] = value;
  });
  if (known)
    known.forEach((value, row) => {
      if (value > 0) total[ofRow[row]] = value;
    });
  const all = !counts && !isTimed ? code.all[key] : branchOwn.reduce((so_far, value) => so_far + value, 0);
  // Shares are of what grew, where something shrank.
  const whole = branchOwn.some((value) => value < 0)
    ? branchOwn.reduce((so_far, value) => so_far + Math.max(value, 0), 0)
    : all;
  return { own, total, branchOwn, branchTotal, all, whole };
}

// The same view is asked for by tables, tree and graph.
const codeNumbersKept = new Map();
function codeNumbers(model, view) {
  const { measure, range, only, without } = view;
  const key = JSON.stringify([measure.key, range, only, without]);
  if (!codeNumbersKept.has(key)) {
    if (codeNumbersKept.size > 40) codeNumbersKept.clear();
    codeNumbersKept.set(
      key,
      model.sides.map((side) => codeNumbersOfSide(model, side, view)),
    );
  }
  return codeNumbersKept.get(key);
}

// What counts where one number is shown: of two traces, the difference.
const codeValue = (sides) => (sides.length > 1 ? sides[1] - sides[0] : sides[0]);

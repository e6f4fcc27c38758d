#!/usr/bin/env ruby
# frozen_string_literal: true

# by_code_test.rb - what `malloctape report` says of code and what `malloctape export` makes of call
# stacks, against a count of the same calls in Ruby.

require 'json'
require 'tmpdir'
require 'zlib'
require_relative '../tap'
require_relative '../symbols/stack_script'

MALLOCTAPE = "#{BUILD}/bin/malloctape"
RANDOM = Random.new(35)

def function(name, line = 1, file = "#{name[/\w+\z/]}.c") = Function.new(name, file, line)

LEAVES = [[function('malloc', 0, ''), function('parse', 10)],
          [function('operator new', 0, ''), function('std::vector::push_back', 3, 'vector'),
           function('outer::fill', 20)],
          [function('fill_file', 30, 'fill.c')],
          [function('std::string::append', 4, 'string'), function('parse', 11)],
          [function('std::all::library', 5, 'string')]].freeze
CALLERS = [[function('main')], [function('loop'), function('main')],
           [function('parse', 12), function('loop'), function('main')]].freeze

FREES = [[function('operator delete', 0, ''), function('outer::fill', 21)],
         [function('free', 0, ''), function('drop', 40)]].freeze

# Calls at random, of three threads. `metadata` may say that frees have stacks, too.
def random_script(count, *words, metadata: {}, &keep)
  script = StackScript.new(*words, metadata:, &keep)
  alive = []
  count.times do |i|
    script.lane(RANDOM.rand(3))
    if alive.size > 20 && RANDOM.rand < 0.55
      script.free(alive.delete_at(RANDOM.rand(alive.size)),
                  metadata.empty? ? [] : FREES.sample(random: RANDOM) + CALLERS.first)
    elsif alive.any? && RANDOM.rand < 0.1
      script.reallocate(alive.sample(random: RANDOM), RANDOM.rand(1..3000),
                        LEAVES.sample(random: RANDOM) + CALLERS.sample(random: RANDOM))
    else
      alive << i
      script.allocate(i, 1 << RANDOM.rand(4..12),
                      LEAVES.sample(random: RANDOM) + CALLERS.sample(random: RANDOM))
    end
    script.tick if (i % 500).zero?
  end
  script
end

def reported(*words)
  output_of({}, MALLOCTAPE, 'report', *words, '--json', 'report.json')
  JSON.parse(File.read('report.json'))['code']
end

# { name => { key => value } } of a table.
def by_name(table, keys, name = 'name')
  table[name].each_index.to_h { |i| [table[name][i], keys.to_h { |key| [key, table[key][i]] }] }
end

KEYS = StackScript.sums([], 0).keys

def differences(told, counted)
  (told.keys | counted.keys).reject { |key| told[key] == counted[key] }
                            .map { |key| "#{key}: #{told[key]} instead of #{counted[key]}" }
end

# Rows that only callers have, have nothing of their own.
def check_rows(text, told, counted)
  told = told.reject { |_, sums| sums.values.sum.zero? }
  wrong = differences(told, counted)
  report wrong.empty? && told.any?, text, wrong.first(5)
end

# Messages of protocol buffers: [field, number or bytes] each.
def fields(bytes)
  at = 0
  varint = lambda do
    shift = number = 0
    loop do
      byte = bytes.getbyte(at)
      at += 1
      number |= (byte & 127) << shift
      shift += 7
      return number if byte < 128
    end
  end
  list = []
  while at < bytes.bytesize
    key = varint.call
    value = varint.call
    if key & 7 == 2
      value = bytes.byteslice(at, length = value)
      at += length
    end
    list << [key >> 3, value]
  end
  list
end

def decode_varints(bytes)
  list = [0]
  shift = 0
  bytes.each_byte do |byte|
    list[-1] |= (byte & 127) << shift
    shift = byte < 128 ? 0 : shift + 7
    list << 0 if byte < 128
  end
  list[..-2]
end

# What a profile says: the names of its values, and the values by stack (innermost first).
def profile(path)
  parts = fields(Zlib::GzipReader.open(path, &:read)).group_by(&:first)
                                                     .transform_values { |list| list.map(&:last) }
  texts = parts[6].map { |text| text.dup.force_encoding('UTF-8') }
  functions = parts[5].to_h { |one| fields(one).to_h.values_at(1, 2) }
  locations = parts[4].to_h do |one|
    lines = fields(one).select { |field, _| field == 4 }.map { |_, line| fields(line).to_h[1] }
    [fields(one).to_h[1], lines.map { |id| texts[functions[id]] }]
  end
  samples = parts[2].map do |one|
    sample = fields(one).to_h
    [decode_varints(sample[1]).flat_map { |id| locations[id] }, decode_varints(sample[2])]
  end
  [parts[1].map { |type| texts[fields(type).to_h[1]] }, samples]
end

def summed(pairs)
  pairs.group_by(&:first).transform_values { |list| list.map(&:last) }
end

def from_own(stack)
  shown = StackScript.shown(stack)
  shown.drop(shown.index(StackScript.own(stack)))
end

def has?(program) = ENV['PATH'].split(':').any? { |place| File.executable?("#{place}/#{program}") }

def sanitized? = File.binread("#{BUILD}/bin/replay").match?(/__asan_init|__tsan_init/)

LIVES = %w[made bytes end_bytes end_objects short_lived ended_1000 ended_10000 ended_100000].freeze

Dir.mktmpdir do |directory|
  Dir.chdir(directory)
  plan 72

  script = random_script(4000)
  script.write('t.p')
  name = ->(object) { StackScript.own(object.stack).name }
  code = reported('t.p')

  # --- tables ---

  check_rows('by function: what each asks for itself', by_name(code['rows'], KEYS),
             script.sums_by(&name))

  total = %w[made bytes peak_bytes end_bytes]
  told = by_name(code['rows'], total.map { |key| "total_#{key}" }).transform_values(&:values)
  functions = (LEAVES + CALLERS).flatten.uniq.map(&:name)
  counted = functions.to_h do |one|
    of = script.objects.select { |o| StackScript.shown(o.stack).any? { |f| f.name == one } }
    [one, StackScript.sums(of, script.peak_call).values_at(*total)]
  end
  wrong = differences(told, counted.reject { |_, sums| sums.sum.zero? })
  report wrong.empty?, 'by function: with what it calls', wrong.first(5)

  oldest = script.objects.reject(&:ended).group_by(&name)
                 .transform_values { |of| of.map(&:call).min }
  told = by_name(code['rows'], %w[oldest_call]).transform_values { |row| row['oldest_call'] }
  report told.reject { |_, call| call.zero? } == oldest, 'the oldest object that is alive at the end'

  check_rows('by file', by_name(reported('t.p', '--by', 'file')['rows'], KEYS),
             script.sums_by { |o| StackScript.own(o.stack).file })
  line = ->(one) { one.line.zero? ? one.name : "#{one.name} #{File.basename(one.file)}:#{one.line}" }
  check_rows('by line', by_name(reported('t.p', '--by', 'line')['rows'], KEYS),
             script.sums_by { |o| line.(StackScript.own(o.stack)) })

  # --- the line of a number, not of all bytes ---

  lines = StackScript.new
  2000.times do |i|
    lines.allocate(i, 1000, [function('fills', 4)])
    lines.free(i)
    lines.allocate(i, 40, [function('fills', 8)])
    lines.allocate(-i - 1, 20, [function('fills', 9)]) if i % 4 == 0
  end
  lines.write('l.p')
  code = reported('l.p')
  told = %w[bytes end_bytes short_lived grown_bytes].map { |key| code['where'][key][0] }
  report told == ['fills.c:4 and 2 others', 'fills.c:8 and 1 other', 'fills.c:4', ''],
         'a row has the line of the number that is shown', told
  nowhere = StackScript.new
  nowhere.allocate(1, 100, [Function.new('nameless', '', 0)])
  nowhere.write('n.p')
  told = reported('n.p', '--by', 'file')['rows']['name']
  report told.none? { |one| one.start_with?('(') }, 'by file: code of an unknown file is not without a stack', told
  code = reported('t.p')
  rows = reported('t.p', '--by', 'stack')['rows']
  places = rows['name'].zip(rows['file'], rows['line'])
  counted = script.sums_by { |o| from_own(o.stack) }
  told = places.zip(rows['bytes']).sort_by(&:to_s)
  counted = counted.map { |stack, of| [stack.first.to_a, of['bytes']] }
                   .map { |(one, file, line), bytes| [[one, file, line], bytes] }.sort_by(&:to_s)
  report told == counted && told.size > 8, 'by stack', differences(told.to_h, counted.to_h)

  sums = StackScript.sums(script.objects, script.peak_call)
  wrong = differences(code['all'].slice(*KEYS), sums)
  tree = code['tree']
  wrong += differences(KEYS.to_h { |key| [key, tree[key].sum] }, sums)
  report wrong.empty? && tree['parent'].each_with_index.all? { |up, i| up.nil? || up < i },
         'the whole, and the tree of all stacks', wrong

  paths = tree['name'].each_index.to_h do |i|
    path = []
    at = i
    while at
      path << tree['name'][at]
      at = tree['parent'][at]
    end
    [path, tree['bytes'][i]]
  end
  counted = script.sums_by { |o| StackScript.shown(o.stack).map(&:name) }
                  .transform_values { |of| of['bytes'] }
  wrong = differences(paths.reject { |_, bytes| bytes.zero? }, counted)
  report wrong.empty?, 'the tree: each stack', wrong.first(3)

  # --- over time, and by size ---

  times = reported('t.p')['times']
  buckets = times['end_call'].zip([0] + times['end_call'])
  counted = Hash.new { |all, key| all[key] = [0, 0, 0, 0] }
  in_bucket = ->(call) { times['end_call'].index { |last| call <= last } }
  script.objects.each do |o|
    [[o.call, 0], [o.ended, 2]].each do |at, column|
      next if at.nil?

      of = counted[[name.(o), in_bucket.(at)]]
      of[column] += 1
      of[column + 1] += o.size
    end
  end
  columns = %w[bucket made bytes ended ended_bytes]
  told = times['rows']['of'].zip(*times['rows'].values_at(*columns))
                            .to_h { |row, bucket, *of| [[code['rows']['name'][row], bucket], of] }
  wrong = differences(told, counted)
  report wrong.empty? && buckets.size > 5 && times['end_ns'].last == 80_000_000,
         'over time: what was made and ended in each bucket', wrong.first(5)
  told = times['tree']['of'].each_index.sum { |i| times['tree']['bytes'][i] - times['tree']['ended_bytes'][i] }
  report told == sums['end_bytes'], 'over time: the tree has all of it', [told.to_s]
  sizes = reported('t.p')['sizes']
  told = sizes['of'].each_index.group_by { |i| [code['rows']['name'][sizes['of'][i]], sizes['size'][i]] }
                    .transform_values { |of| LIVES.map { |key| sizes[key][of[0]] } }
  counted = script.objects.group_by { |o| [name.(o), 1 << (o.size.bit_length - 1)] }.transform_values do |of|
    lives = of.select(&:ended).map { |o| o.ended - o.call }
    stays = of.reject(&:ended)
    [of.size, of.sum(&:size), stays.sum(&:size), stays.size,
     *[0..100, 101..1000, 1001..10_000, 10_001..100_000].map { |range| lives.count { |calls| range.cover?(calls) } }]
  end
  wrong = differences(told, counted)
  report wrong.empty? && told.size > 10 && counted.values.transpose[-3].sum.positive?,
         'by size, with lifetimes', wrong.first(5)

  # --- a range of time, suppressions ---

  phases = StackScript.new
  3.times do |phase|
    40.times { |i| phases.allocate((phase * 100) + i, 1000, [function("phase#{phase}", 3), function('main')]) }
    30.times { |i| phases.free(((phase - 1) * 100) + i) } if phase.positive?
    phases.tick
  end
  phases.write('phases.p')
  text = output_of({}, MALLOCTAPE, 'report', 'phases.p', '--from', '10ms', '--to', '0.02')
  told = text[/^functions, in this time, by what grew\n.*\n((?:  .*\n)*)/, 1].to_s.lines.map { |line| line.split.join(' ') }
  report told == ['+ 39.1 KiB 39.1 KiB 0 bytes + 39.1 KiB phase1 phase1.c:3',
                  '- 29.3 KiB 0 bytes 29.3 KiB - 29.3 KiB phase0 phase0.c:3'],
         '--from, --to: what was made, freed and grew in this time', told
  refused = %w[9 3x].map { |time| IO.popen([MALLOCTAPE, 'report', 'phases.p', '--from', time, { err: %i[child out] }], &:read).lines[0] }
  report refused[0].end_with?("phases.p: ends before the time of --from, after 30 ms\n") &&
         refused[1].end_with?("--from takes a time like 1.5s, 300ms or 2min, not '3x'\n"),
         'a time beyond the end, and what is none', refused
  File.write('known', "# of ours\nleak:^ph*0$\n")
  text = output_of({}, MALLOCTAPE, 'report', 'phases.p', '--suppressions', 'known')
  said = text[/^functions, alive at the end .*\n((?:  .*\n)*)/, 1].to_s
  json = reported('phases.p', '--suppressions', 'known')
  report said.scan(/phase\d/).uniq.sort == %w[phase1 phase2] && said.include?('9.8 KiB that are known to stay') &&
         json['suppressed'] == { 'objects' => 10, 'bytes' => 10_000 }, '--suppressions', [said]
  File.write('known', "leak:a\n\nrace:b\n")
  said = IO.popen([MALLOCTAPE, 'report', 'phases.p', '--suppressions', 'known', { err: %i[child out] }], &:read)
  report said == "malloctape report: known: line 3 begins with neither leak: nor made:\n", 'a line that is none', [said]

  # --- source ---

  File.write('fills.c', (1..12).map { |i| "int line#{i};\tx\e[2J\n" }.join)
  text = StackScript.new
  place = File.join(Dir.pwd, 'fills.c')
  text.allocate(1, 1000, [Function.new('ns::fills', place, 5), function('main')])
  text.allocate(2, 40, [function('other'), Function.new('ns::fills', place, 6), function('main')])
  text.allocate(3, 7, [Function.new('ns::fills', place, 6), function('main')])
  text.free(1)
  text.write('source.p')
  said = output_of({}, MALLOCTAPE, 'report', 'source.p', '--source', 'fills').lines.map(&:split)
  report said.map { |line| line[0, 5] }.last(8) ==
         (2..9).map { |i| i == 5 ? %w[1000 bytes 1000 bytes 1] : i == 6 ? %w[7 bytes 47 bytes 1] : ['.', '.', '.', '.', i.to_s] } &&
         said[-4].join(' ') == '7 bytes 47 bytes 1 7 bytes 6 int line6; x\x1b[2J', '--source', said.map(&:to_s)
  said = IO.popen([MALLOCTAPE, 'report', 'source.p', '--source', 'ills', { err: %i[child out] }], &:read)
  report said == "malloctape report: source.p: --source: no call stack has a function 'ills'\n", 'none of that name', [said]
  File.write('fills.c', "one\n" * 5)
  said = output_of({}, MALLOCTAPE, 'report', 'source.p', '--source', 'fills').lines.map(&:split)
  File.truncate('fills.c', 1 << 40)
  large = IO.popen(['sh', '-c', 'ulimit -v 2000000; exec "$@"', 'sh', MALLOCTAPE, 'report', 'source.p', '--source', 'fills'], &:read)
  report said[-3].last(2) == %w[5 one] && said[-2].join(' ') == '7 bytes 47 bytes 1 7 bytes 6' && said[-1].include?('changed.') &&
         large.include?('fills.c, which is not here') && large.lines.last(2).map { |line| line.split.last } == %w[5 6],
         '--source of a file that became shorter, or is no source: the numbers stay', said.map(&:to_s) + [large]
  File.truncate('fills.c', 0)
  File.write('fills.c', (1..12).map { |i| "int line#{i};\tx\e[2J\n" }.join)
  if Dir.exist?('/usr/share/javascript/chart.js')
    output_of({}, MALLOCTAPE, 'report', 'source.p', '--source', 'fills', '--html', 'source.html')
    output_of({}, MALLOCTAPE, 'report', 'source.p', '--html', 'other.html')
    has = %w[source.html other.html].map { |page| File.read(page).include?('int line6') }
    report has == [true, false], 'on the page, if it was asked for', [has.to_s]
  else
    skip('on the page, if it was asked for', 'no libjs-chart.js')
  end

  focus = reported('t.p', '--focus', '^outer::|^fill\.c$')
  of = script.objects.select do |o|
    StackScript.shown(o.stack).any? { |f| f.name.start_with?('outer::') || f.file == 'fill.c' }
  end
  wrong = differences(focus['all'].slice(*KEYS), StackScript.sums(of, script.peak_call))
  report wrong.empty?, '--focus: functions and files', wrong

  ignore = reported('t.p', '--ignore', '^outer::|^fill\.c$')
  wrong = differences(ignore['all'].slice(*KEYS), StackScript.sums(script.objects - of, script.peak_call))
  report wrong.empty?, '--ignore: what --focus shows is left out', wrong

  depths = [1, 2, 50].map do |n|
    reported('t.p', '--by', 'stack', '--depth', n.to_s)['rows']['name'].size
  end
  counted = [1, 2, 50].map do |n|
    script.objects.map { |o| from_own(o.stack).first(n) }.uniq.size
  end
  report depths == counted, '--depth: stacks that are the same so far are one', [depths, counted].map(&:to_s)

  # --- text ---

  text = output_of({}, MALLOCTAPE, 'report', 't.p')
  first = %w[bytes objects].map do |what|
    text[/^functions, by #{what} .*\n.*?  ([^ ]+)  \S+:\d+(?: and \d+ others?)?$/, 1]
  end
  by = ->(key) { script.sums_by(&name).max_by { |_, row| row[key] }.first }
  report first == [by.('bytes'), by.('made')], 'the first line of a table is what asks for most',
         [first.to_s, text[/^functions.*/m].to_s[0, 600]]

  text = output_of({}, MALLOCTAPE, 'report', 't.p', '--sort', 'total', '--top', '7')
  said = text[/^functions, by bytes .*\n((?: .*\n)*)/, 1].lines
  totals = script.objects.each_with_object(Hash.new(0)) do |o, all|
    StackScript.shown(o.stack).map(&:name).uniq.each { |one| all[one] += o.size }
  end
  known = reported('t.p', '--sort', 'total')
  order = known['rows']['name'].first(3) == known['rows']['name']
    .sort_by.with_index { |_, i| -known['rows']['total_made'][i] }.first(3)
  report said.size == 7 && said[0].include?("  #{totals.max_by(&:last).first}  ") && order &&
         known['sort'] == 'total', '--sort total, --top', [said.join, known['rows']['name'].first(5).to_s]

  # --- what a program that tidies up had at its peak ---

  firsts = [true, false].map do |tidies|
    tidy = StackScript.new
    500.times { |i| tidy.allocate(i, 1000, [function('caches', 4), function('main')]) }
    5000.times do
      tidy.allocate(9000, 4000, [function('reads', 8), function('main')])
      tidy.free(9000)
    end
    500.times { |i| tidy.free(i) } if tidies
    tidy.write('tidy.p')
    reported('tidy.p')['first'].values_at('name', 'number').transpose
  end
  report firsts == [[%w[caches peak_bytes], %w[reads short_lived]], [%w[caches end_bytes], %w[reads short_lived]]],
         'what was alive at the peak is looked at first if nothing is left of it', [firsts.to_s]

  # --- what grows without realloc ---

  vectors = StackScript.new
  fills = [function('std::vector<>::_M_realloc_insert'), function('fills', 4), function('main')]
  10.times { |i| vectors.allocate(1000 + i, 8, fills) }
  6.times do |k|
    10.times do |i| # and in the other lane something else is in between
      vectors.allocate((100 * k) + i, 16 << k, fills)
      vectors.lane(1)
      vectors.allocate(5000 + (100 * k) + i, 7, [function('other'), function('main')])
      vectors.lane(0)
      vectors.free(k.zero? ? 1000 + i : (100 * (k - 1)) + i)
    end
  end
  # A queue of objects of one size, and a call in between: nothing grows.
  10.times { |i| vectors.allocate(9000 + i, 32 * (i + 1), [function('queues', 3), function('main')]) }
  9.times do |i|
    vectors.allocate(9100 + i, 33 * (i + 1), [function('queues', 3), function('main')])
    vectors.free(9000 + i)
  end
  vectors.write('vectors.p')
  counted = vectors.sums_by(&name)
  rows = reported('vectors.p')['rows']
  grown = rows['name'].zip(rows['grown'], rows['grown_bytes']).to_h { |one, *of| [one, of] }
  report grown['fills'] == [60, 10 * ((16 << 5) - 8)] && grown['queues'] == [0, 0] &&
         counted['fills']['grown_bytes'] == grown['fills'][1], 'containers that grow', [grown.to_s]

  # --- what may leak ---

  leaks = StackScript.new
  table = [function('begins', 2), function('main')]
  100.times { |i| leaks.allocate(-1 - i, 64, table) }
  8000.times do |i|
    leaks.allocate(i, 160, [function('serves', 7), function('main')])
    leaks.free(i) if i % 8 != 0
    leaks.allocate(20_000 + i % 50, 160, [function('caches', 9), function('main')]) if i < 50
    leaks.free(20_000 + i % 50) if i >= 50
    leaks.allocate(20_000 + i % 50, 160, [function('caches', 9), function('main')]) if i >= 50
  end
  leaks.write('leaks.p')
  text = output_of({}, MALLOCTAPE, 'report', 'leaks.p')
  report text.scan(/^may leak .*\n(?: {16}.* quarter.*\n)*/) ==
         ["may leak        156 KiB in 1 000 of 8 000 objects of serves  serves.c:7, more in each quarter of the calls\n"],
         'what may leak goes by code and growth: not a table, nor a cache', [text.lines.first(14).join]
  leaking = reported('leaks.p')['may_leak']
  report leaking == { 'name' => ['serves'], 'where' => ['serves.c:7'], 'made' => [8000],
                      'end_objects' => [1000], 'end_bytes' => [160_000] } &&
         text.index('functions, alive at the end') < text.index('functions, by bytes'),
         'JSON says so, too, and the tables begin with what is alive', [leaking.to_s]
  # Of a part, the ages of what was alive before are known. Sessions that live for a sixth of the time
  # are made in each quarter of its calls, and most of the leak before it.
  served = StackScript.new
  6000.times do |i|
    served.allocate(i, 160, [function('sessions', 7), function('main')])
    served.free(i - 1000) if i >= 1000
    served.allocate(-1 - i, 64, [function('forgets', 5), function('main')]) if (i % 10).zero?
    served.tick if i % 60 == 59
  end
  served.write('served.p')
  output_of({}, MALLOCTAPE, 'cut', '-q', '--from', '11000calls', 'served.p', '-o', 'served.part.p')
  text = output_of({}, MALLOCTAPE, 'report', 'served.part.p')
  reported('served.part.p')
  sizes = JSON.parse(File.read('report.json'))['first']['may_leak']
  report text.scan(/^may leak .*\n(?: {16}.* quarter.*\n)*/) ==
         ["may leak        37.5 KiB in 600 of 600 objects of forgets  forgets.c:5, more in each quarter of " \
          "the time since recording began\n"] &&
         text.match?(/end  .*\n.* sessions  sessions.c:7, since before call 1$/) && sizes['size'] == [64],
         'with a base, what may leak was made in all of the time, not what lives for long', [text.lines.first(20).join]
  firsts = %w[line stack].map do |by|
    output_of({}, MALLOCTAPE, 'report', 'leaks.p', '--by', by)[/^.* to look at first\n  .*/].to_s.split("\n")
  end
  report firsts.map(&:first) == ['lines to look at first', 'call stacks to look at first'] &&
         firsts[0][1].match?(/alive at the end  *serves serves\.c:7$/) &&
         firsts[1][1].match?(/alive at the end  *serves  serves\.c:7 < main$/),
         'what to look at first is there by line and by stack, too', firsts.flatten
  report text.index('functions, by bytes') < text.index('sizes, by'), 'code comes before sizes', [text]

  # --- long names ---

  inner = 'std::map<std::string, std::vector<std::pair<int, std::string> >, std::less<void> >'
  long = %w[insert remove operator<].map { |member| "Registry<#{inner}, #{inner}>::#{member}" }
  names = StackScript.new
  long.each_with_index { |one, i| names.allocate(i, 100, [Function.new(one, 'r.cc', 4)]) }
  names.allocate(3, 10, [Function.new("#{'n' * 200}::tail", 'r.cc', 4)])
  names.allocate(4, 10, [Function.new("#{'é' * 100}x", 'r.cc', 4)])
  names.write('names.p')
  text = output_of({}, MALLOCTAPE, 'report', 'names.p')[/^functions, by bytes.*?\n\n/m]
  shown = text.scan(/Registry.*$/)
  report shown == %w[insert operator< remove].map { |one| "Registry<std::map<..>, std::map<..>>::#{one}  r.cc:4" },
         'long names are shortened in their arguments; the member stays', [text]
  report text.valid_encoding? && text.match?(/\.\.é{43}x  r\.cc:4$/), 'a name is not cut within a character', [text]
  report text.match?(/\.\.n{82}::tail  r\.cc:4$/) && (long - reported('names.p')['rows']['name']).empty?,
         'a name without arguments keeps its end; JSON has the whole', [text]

  # --- code that is not there ---

  _, said, status = Open3.capture3(MALLOCTAPE, 'report', 'names.p', '--fail-if', 'bytes@gone>1')
  report status.exitstatus.zero? && said.include?('no call stack has gone, so its number is 0'),
         '--fail-if of a function that has gone: the bar holds', [said]
  bare = StackScript.new
  bare.allocate(1, 10, [])
  bare.write('bare.p')
  output_of({}, MALLOCTAPE, 'export', '--quiet', '--to', 'ops', 'bare.p', '-o', 'bare.ops')
  output_of({}, MALLOCTAPE, 'import', '--quiet', '--from', 'ops', '-o', 'without.p', 'bare.ops')
  _, said, = Open3.capture3(MALLOCTAPE, 'report', 'without.p', '--by', 'line')
  report said.include?('without.p: has no call stacks, so --by shows nothing'), '--by without stacks says so', [said]

  # --- frees ---

  frees = random_script(3000, metadata: { 'stacks.frees' => 'all' })
  frees.write('f.p')
  freed = frees.objects.select(&:freed)
  keys = StackScript.sums_of_frees([]).keys
  code = reported('f.p')
  counted = freed.group_by { |o| StackScript.own(o.freed).name }
                 .transform_values { |of| StackScript.sums_of_frees(of) }
  told = by_name(code['rows'], keys).reject { |_, sums| sums.values.sum.zero? }
  wrong = differences(told, counted) + differences(code['all'].slice(*keys), StackScript.sums_of_frees(freed)) +
          differences(by_name(code['rows'], KEYS).reject { |_, sums| sums.values.sum.zero? }, frees.sums_by(&name))
  report wrong.empty? && counted.size == 2, 'frees: which code frees how much', wrong.first(5)

  fits = { 'short_lived' => ->(o) { o.ended - o.call <= 100 }, 'remote' => ->(o) { o.ended_lane != o.lane } }
  wrong = fits.flat_map do |what, fit|
    told = by_name(code['rows'], ["#{what}_freed_by", "#{what}_freed_share"]).transform_values(&:values)
    freed.select(&fit).group_by(&name).filter_map do |one, of|
      counts = of.group_by { |o| StackScript.own(o.freed).name }.transform_values(&:size)
      freer, part = told[one]
      "#{what} of #{one}: #{told[one]}, #{counts}" unless
        counts[freer] == counts.values.max && (part - counts[freer].fdiv(of.size)).abs < 1e-9
    end
  end
  text = output_of({}, MALLOCTAPE, 'report', 'f.p')
  lines = text[/^functions, gone within 100 calls.*?\n\n/m].to_s
  report wrong.empty? && lines.match?(/  outer::fill  .+, \d+ % freed by itself$/) &&
         lines.match?(/  parse  .+, \d+ % freed by drop$/),
         'and who frees what another function made', wrong + [text[/^functions, gone.*?\n\n/m].to_s]

  some = random_script(8000, metadata: { 'stacks.frees' => 'some' }) { |size| size || RANDOM.rand < 0.2 }
  some.write('s.p')
  rows = reported('s.p')['rows']
  truly = some.objects.select(&:freed).group_by { |o| StackScript.own(o.freed).name }.transform_values(&:size)
  told = by_name(rows, %w[freed freed_margin])
  wrong = truly.reject { |one, count| (told[one]['freed'] - count).abs <= 1.5 * told[one]['freed_margin'] }
  report wrong.empty? && truly.size == 2 && truly.all? { |one, _| told[one]['freed_margin'].between?(5, 400) },
         'frees that are sampled: estimates, with intervals', [told.slice(*truly.keys).to_s, truly.to_s]

  # --- exports ---

  measures = { 'bytes' => 'bytes', 'calls' => 'made', 'peak' => 'peak_bytes', 'end' => 'end_bytes' }
  wrong = measures.flat_map do |measure, key|
    output_of({}, MALLOCTAPE, 'export', '--quiet', '--to', 'folded', '--measure', measure, 't.p',
              '-o', 'folded')
    told = File.readlines('folded', chomp: true).to_h do |line|
      names, _, value = line.rpartition(' ')
      [names.split(';'), value.to_i]
    end
    counted = script.sums_by { |o| StackScript.shown(o.stack).map(&:name).reverse }
                    .transform_values { |row| row[key] }.reject { |_, value| value.zero? }
    differences(told, counted)
  end
  report wrong.empty?, 'folded: each stack, by each measure', wrong.first(3)
  output_of({}, MALLOCTAPE, 'export', '--quiet', '--to', 'folded', '--by', 'line', 't.p', '-o', 'folded')
  told = File.readlines('folded', chomp: true).to_h { |one| [one[/.*(?= )/], one[/\d+$/].to_i] }
  counted = script.objects.group_by { |o| StackScript.shown(o.stack).map(&line).reverse.join(';') }
                  .transform_values { |of| of.sum(&:size) }
  wrong = differences(told, counted)
  report wrong.empty? && told.size > 8, 'folded, by line', wrong.first(3)

  output_of({}, MALLOCTAPE, 'export', '--quiet', '--to', 'pprof', 't.p', '-o', 'p.gz')
  types, samples = profile('p.gz')
  keys = %w[made bytes end_objects end_bytes peak_objects peak_bytes]
  counted = script.sums_by { |o| StackScript.shown(o.stack).map(&:name) }
                  .transform_values { |row| row.values_at(*keys) }
  told = summed(samples).transform_values { |list| list.transpose.map(&:sum) }
  wrong = differences(told, counted)
  names = %w[alloc_objects alloc_space inuse_objects inuse_space peak_objects peak_space]
  report wrong.empty? && types == names, 'pprof: each stack, all values', wrong.first(3)

  twice = StackScript.new
  twice.allocate(1, 100, [function('work', 3, 'a.c'), function('main')])
  twice.allocate(2, 10, [function('work', 9, 'b.c'), function('main')])
  twice.write('twice.p')
  output_of({}, MALLOCTAPE, 'export', '--quiet', '--to', 'pprof', 'twice.p', '-o', 'twice.gz')
  parts = fields(Zlib::GzipReader.open('twice.gz', &:read)).group_by(&:first)
  texts = parts[6].map(&:last)
  told = parts[5].map { |_, one| fields(one).to_h.values_at(2, 3, 4).map { |text| text && texts[text] } }
  report told.sort == [['main', nil, 'main.c'], ['work', nil, 'a.c'], ['work', nil, 'b.c']],
         'pprof: functions of one name in two files; no system name', told.map(&:to_s)

  skipped = reported('t.p', '--skip', '^outer::|^fill\\.c$')
  counted = script.sums_by do |o|
    shown = StackScript.shown(o.stack)
    passed = ->(one) { one.library? || one.name.start_with?('outer::') || one.file == 'fill.c' }
    (shown.find { |one| !passed.(one) } || shown.first).name
  end
  check_rows('--skip: what matches counts for its caller', by_name(skipped['rows'], KEYS), counted)

  if has?('go')
    top = output_of({ 'HOME' => directory }, 'go', 'tool', 'pprof', '-top', '-unit=B',
                    '-sample_index=alloc_space', 'p.gz')
    told = top[/of (\d+)B total/, 1]
    report told.to_i == sums['bytes'], '`go tool pprof` says the same bytes', [top.lines.first(6).join]
  else
    skip('`go tool pprof`', 'no go')
  end

  output_of({}, MALLOCTAPE, 'export', '--quiet', '--to', 'heaptrack', 't.p', '-o', 'h')
  if has?('heaptrack_print')
    said = output_of({}, 'heaptrack_print', 'h')
    output_of({}, 'heaptrack_print', '-F', 'folded.h', '--flamegraph-cost-type', 'leaked', 'h')
    leaked = File.readlines('folded.h').sum { |line| line[/\d+$/].to_i }
    made = said[/calls to allocation functions: (\d+)/, 1].to_i
    report made == sums['made'] && leaked == sums['end_bytes'],
           'heaptrack_print says as many calls, and the same bytes at the end',
           [made, sums['made'], leaked, sums['end_bytes']].map(&:to_s) + said.lines.last(8)
  else
    skip('heaptrack_print', 'no heaptrack')
  end

  output_of({}, MALLOCTAPE, 'import', '--quiet', '-o', 'h.p', 'h')
  folded = %w[t.p h.p].map do |trace|
    output_of({}, MALLOCTAPE, 'export', '--quiet', '--to', 'folded', trace, '-o', 'folded')
    File.readlines('folded').sort
  end
  report folded[0] == folded[1] && folded[0].size > 8, 'heaptrack\'s file, imported: the same stacks',
         (folded[1] - folded[0]).first(3)

  output_of({}, MALLOCTAPE, 'export', '--quiet', '--to', 'avro', 't.p', '-o', 't.avro', '--stacks',
            'stacks.avro')
  if has?('avrocat')
    objects, stacks = %w[t.avro stacks.avro].map do |file|
      output_of({}, 'avrocat', file).lines.map { |line| JSON.parse(line) }
    end
    frames = stacks.to_h { |row| [row['stack'], row['frames'].map { |one| one['function'] }] }
    told = objects.map { |row| [row['call'], row['size'], frames[row['stack']['long']]] }
    counted = script.objects.map { |o| [o.call, o.size, StackScript.shown(o.stack).map(&:name)] }
    report told.sort_by(&:first) == counted, 'avro: the stack of each object, and what they are',
           (told.sort_by(&:first) - counted).first(3).map(&:to_s)
  else
    skip('avro', 'no avrocat')
  end

  # --- what is not there ---

  plain = "#{BUILD}/tests/tools/make_instructions"
  File.binwrite('plain.p', output_of({}, plain, 'churn', '1000', '10'))
  output_of({}, MALLOCTAPE, 'report', 'plain.p', '--json', 'plain.json')
  _, errors, status = Open3.capture3(MALLOCTAPE, 'export', '--to', 'pprof', 'plain.p', '-o', 'none')
  report !JSON.parse(File.read('plain.json')).key?('code') && status.exitstatus == 1 &&
         errors.include?('has no call stacks') && !File.exist?('none'),
         'a trace without call stacks', [errors]

  # --- lifetimes ---

  lives = StackScript.new
  lifetimes = [100, 101, 1000, 1001, 10_000, 10_001, nil]
  lifetimes.each_index { |i| lives.allocate(i, 8, [function('keep', 3)]) }
  ends = lifetimes.each_with_index.to_h { |calls, i| [i + 1 + calls.to_i, i] }
  is_there = false
  (lifetimes.size + 1..10_007).each do |call|
    next lives.free(ends[call]) if ends.key?(call)

    is_there ? lives.free(100) : lives.allocate(100, 100, [function('other', 4)])
    is_there = !is_there
  end
  lives.write('lives.p')
  sizes = reported('lives.p')['sizes']
  told = LIVES.drop(3).push('ended_1000000').map { |key| sizes[key][sizes['size'].index(8)] }
  text = output_of({}, MALLOCTAPE, 'report', 'lives.p')
  said = text[/^functions, by objects made: sizes.*\n.*\n((?:  .*\n)*)/, 1].to_s.lines.map(&:split)
  keep = '7 16 bytes 14 % 57 % 14 % . 14 % keep keep.c:3'.split
  report told == [1, 1, 2, 2, 1, 0] && said.include?(keep), 'lifetimes, by function', [told.to_s, *said.map(&:to_s)]

  # Two of a base are alive at the end, and were not made.
  based = StackScript.new
  3.times { |i| based.allocate(i, 8, [function('keep', 3)]) }
  based.free(2)
  based.write('based.p')
  output_of({}, MALLOCTAPE, 'cut', '-q', '--from', '2calls', 'based.p', '-o', 'part.p')
  said = output_of({}, MALLOCTAPE, 'report', 'part.p')[/^functions, by objects made: sizes.*\n.*\n(.*)/, 1].to_s
  report said.split == '1 16 bytes 100 % . . . . keep keep.c:3'.split, 'lifetimes are of what was made, without a base', [said]

  # --- two traces ---

  grown = StackScript.new
  parse = LEAVES[0] + CALLERS[0]
  200.times { |i| grown.allocate(i, 100, i < 100 ? parse : LEAVES[2] + CALLERS[1]) }
  grown.write('before.p')
  150.times { |i| grown.allocate(1000 + i, 50, parse) }
  grown.allocate(2000, 9, [function('outer::anew')])
  grown.write('after.p')
  output_of({}, MALLOCTAPE, 'report', 'before.p', 'after.p', '--json', 'two.json')
  told = JSON.parse(File.read('two.json'))['code'].to_h do |row|
    [row['name'], row['bytes'].values_at('before', 'after', 'difference', 'per_cent')]
  end
  report told == { 'parse' => [10_000, 17_500, 7500, 75.0], 'outer::anew' => [0, 9, 9, nil] },
         'two traces: functions that differ, by name', [told.to_s]
  text = output_of({}, MALLOCTAPE, 'report', 'before.p', 'after.p')
  report text.match?(/^functions, by bytes.*\n +9.8 KiB +17.1 KiB +\+ 7.3 KiB +\+ 75 %  parse$/),
         'and as a text, what changed most first', [text[/^functions.*/m].to_s]

  limits = { 'bytes@parse>+70%' => 6, 'bytes@parse>+80%' => 0, 'objects@main>300' => 6,
             'bytes@anew>+5' => 6, 'bytes@outer::anew<10' => 6, 'bytes@new<10' => 6, 'bytes@gone>1' => 0,
             'size@parse>1' => 2, 'end_live@parse>+7K' => 6, 'bytes@fill_file>+0%' => 0 }
  said = limits.keys.map do |limit|
    Open3.capture3(MALLOCTAPE, 'report', 'before.p', 'after.p', '--fail-if', limit)[2].exitstatus
  end
  report said == limits.values, '--fail-if of a function', [said.to_s]

  # --- nearly empty pages ---

  full = StackScript.new
  8000.times do |i|
    full.allocate(i, 1000, [function('fill'), function('main')])
    full.allocate(10_000 + i, 48, [function('keep', 7), function('main')]) if (i % 16).zero?
  end
  8000.times { |i| full.free(i) }
  full.write('full.p')
  if sanitized?
    2.times { skip('--under', 'a sanitizer has an allocator of its own') }
  else
    output_of({}, MALLOCTAPE, 'report', 'full.p', '--under', 'glibc', '--json', 'u.json')
    moment = JSON.parse(File.read('u.json'))['under']['snapshots'].last
    told = moment['sparse']['by_code'].transform_values(&:first)
    text = output_of({}, MALLOCTAPE, 'report', 'full.p', '--under', 'glibc', '--html', 'under.html')
    report told['name'] == 'keep' && told['kept_bytes'] > 1_000_000 && told['objects'] == 500 &&
           text.match?(/500 objects keep .* made by keep  keep.c:7$/),
           '--under: which code keeps nearly empty pages', [told.to_s]
    if has?('node') && Dir.exist?('/usr/share/javascript/chart.js')
      drawn = output_of({}, 'node', "#{__dir__}/../tools/run_page.js", 'under.html')
      report drawn.match?(/^  function \| objects \| keep \|.*\n  keep \| 500 \|/), 'and on the page',
             drawn.lines.grep(/keep/)
    else
      skip('and on the page', 'no node or no libjs-chart.js')
    end
  end

  # --- the page ---

  if has?('node') && Dir.exist?('/usr/share/javascript/chart.js')
    output_of({}, MALLOCTAPE, 'report', 't.p', '--html', 'page.html')
    draw = ->(page) { output_of({}, 'node', "#{__dir__}/../tools/run_page.js", page) }
    drawn = draw.('page.html')
    most = script.sums_by(&name).max_by { |_, row| row['bytes'] }
    row = drawn[/^By code, functions:\n.*\n.*\n  (.*)$/, 1].split(' | ')
    measures = drawn[/^By code: (.*)$/, 1].split(', ').size
    report row[4] == most.first && row[5].start_with?('parse.c:10') && measures == 11, 'the page: rows by each measure',
           drawn.lines.grep(/^By code/).push(row.to_s)
    output_of({}, MALLOCTAPE, 'report', 't.p', '--by', 'stack', '--html', 'stacks.html', '--json', 'stacks.json')
    rows = draw.('stacks.html')[/^By code, functions:\n((?:  .*\n)*)/, 1].lines.drop(2)
    names = JSON.parse(File.read('stacks.json'))['code']['rows']['name']
    report rows.size == names.size && names.uniq.size < names.size, 'a row for each stack, also of one name',
           ["#{rows.size} rows of #{names.size}"]
    output_of({}, MALLOCTAPE, 'report', 'before.p', 'after.p', '--html', 'two.html')
    drawn = draw.('two.html')
    report drawn.match?(/^functions, by bytes asked for: .*\n.*\n  parse \| 9.77 KiB \| 17.1 KiB \| \+ 7.32 KiB \| \+ 75 %$/),
           'the page of two traces: which functions grew', drawn.lines.grep(/parse|functions/)
    rows = drawn[/^By code, functions:\n((?:  .*\n)*)/, 1].to_s.lines
    report rows[0].start_with?('  before | after | difference | with calls | function') &&
           rows[2].start_with?('  9.77 KiB | 17.1 KiB | + 7.32 KiB | + 7.32 KiB | parse |'),
           'and the table of functions there', rows
  else
    4.times { skip('the page', 'no node or no libjs-chart.js') }
  end

  # --- samples ---

  held = (1..size(15, 100)).flat_map do |seed|
    chance = Random.new(seed)
    sampled = random_script(2500, '16384') { |size| chance.rand < 1 - Math.exp(-size / 16_384.0) }
    sampled.write('s.p')
    rows = by_name(reported('s.p')['rows'], KEYS + %w[bytes_margin made_margin])
    rows.delete('(no sample)')
    sampled.sums_by(&name).slice(*rows.keys).flat_map do |one, truth|
      %w[bytes made].map { |key| (rows[one][key] - truth[key]).abs <= rows[one]["#{key}_margin"] }
    end
  end
  share = held.count(true).fdiv(held.size)
  report share >= 0.9, "samples: #{(share * 100).round} % of the intervals have the true value in them"

  sampled = reported('s.p')
  report sampled['sample_bytes'] == 16_384 &&
         (sampled['all']['bytes'] - JSON.parse(File.read('report.json'))['numbers']['bytes']).abs <= 16,
         'samples divide what is known exactly', [sampled['all'].to_s]
  report output_of({}, MALLOCTAPE, 'report', 's.p').match?(/^What grows by copying, .* --stacks=all only\.$/) &&
         !output_of({}, MALLOCTAPE, 'report', 't.p').include?('What grows by copying'),
         'samples: what they cannot show is said'
  few = StackScript.new('16384') { |size| size > 60 }
  30.times { |i| few.allocate(i, i % 3 == 0 ? 70_000 : 50, [function('serves', 7), function('main')]) }
  few.write('few.p')
  report output_of({}, MALLOCTAPE, 'report', 'few.p').include?(
    "\nmay leak        not known: no function has 16 samples that are alive at the end (--stacks=all)\n"
  ), 'samples: that there are too few to tell what may leak is said'

  # --- a program with debug information ---

  File.write('known.c', <<~C)
    __attribute__((noinline)) void *leaf(int n) { return (void *)(long)(n + 1); }
    __attribute__((noinline)) void *outer(int n)
    {
        void *object = leaf(n); /* the call */
        __asm__ volatile(".globl behind\\nbehind:" : : "r"(object) : "memory");
        return object;
    }
    int main(int count, char **words) { (void)words; return outer(count) == 0; }
  C
  output_of({}, 'gcc', '-g', '-O1', '-w', '-o', 'known', 'known.c')
  id = output_of({}, 'readelf', '-n', 'known')[/Build ID: (\h+)/, 1] || '-'
  behind = output_of({}, 'nm', 'known')[/^0*(\h+) . behind$/, 1]
  known = StackScript.new
  known.text << "m 1 555555554000 100000 555555554000 #{id} #{directory}/known\n" \
                "c 1 1 #{behind}\nn 8 0 1\na 1 100 8\n"
  known.write('k.p')
  rows = reported('k.p')['rows']
  line = File.readlines('known.c').index { |text| text.include?('the call') } + 1
  report rows['name'] == ['outer'] && rows['line'] == [line], 'a function of a program, by its build id',
         [rows.to_s]

  again = StackScript.new
  3.times do |i|
    again.text << "m #{i + 1} #{i + 1}00000 10000 0 0123456789abcdef /nowhere/plugin.so\n" \
                  "c #{i + 1} #{i + 1} 100\nn #{i + 8} 0 #{i + 1}\na #{i} 100 #{i + 8}\n"
  end
  again.write('again.p')
  text = output_of({ 'DEBUGINFOD_URLS' => '' }, MALLOCTAPE, 'report', 'again.p')
  told = reported('again.p')['rows'].values_at('name', 'made')
  report text.scan('/nowhere/plugin.so was not found here').size == 1 && told == [['plugin.so+0xff'], [3]],
         'a library that was loaded several times is looked for, and missed, once', [told.to_s]
  hint = /^  FILE\+0x\.\.\.: has no name without debug information/
  named = output_of({}, MALLOCTAPE, 'report', 'n.p')
  report text.match?(hint) && named.match?(/^functions to look at first\n.* nameless/) && !named.match?(hint),
         'of code without a name, what it lacks is said', text.lines.first(12)

  most = StackScript.new
  most.text << "m 65535 100000 10000 0 0123456789abcdef /nowhere/plugin.so\n" \
               "c 1 65535 100\nc 2 0 7000100\nn 8 0 1\nn 9 0 2\na 1 100 8\na 2 100 9\n"
  most.write('most.p')
  text = output_of({ 'DEBUGINFOD_URLS' => '' }, MALLOCTAPE, 'report', 'most.p')
  info = output_of({}, MALLOCTAPE, 'info', 'most.p')
  report text.match?(/^! More files were loaded than can be numbered: for 1 address/) &&
         info.match?(/^code addresses +2, 1 of no file$/) && info.match?(/^modules +1, the most that there can be/),
         'modules without a number are said to be', text.lines.grep(/^!/) + info.lines.last(6)

  empty = StackScript.new
  empty.text << "n 8 0 1\n"
  empty.write('empty.p')
  %w[pprof folded heaptrack].each do |format|
    output_of({}, MALLOCTAPE, 'export', '--quiet', '--to', format, 'empty.p', '-o', 'empty.out')
  end
  report reported('empty.p')['rows']['name'].empty?, 'a program that makes no call'

  # As deep as no recorder writes: each node calls the next one, and each makes an object.
  deep = StackScript.new
  (1..5000).each { |i| deep.text << "c #{i} 0 #{(i * 16).to_s(16)}\nx #{i} f#{i}\ta.c\t#{i}\n" }
  60_000.times { |i| deep.text << "n #{i + 8} #{i.zero? ? 0 : i + 7} #{i % 5000 + 1}\n" }
  60_000.times { |i| deep.text << "a 1 32 #{i + 8}\nf 1 0\n" }
  deep.write('deep.p')
  output_of({}, 'bash', '-c', 'ulimit -t 20 -v 2000000; exec "$@"', 'bash', MALLOCTAPE, 'report', 'deep.p',
            '--json', 'deep.json')
  rows = JSON.parse(File.read('deep.json'))['code']['rows']
  report rows['made'].sum == 60_000, 'stacks of up to 60 000 functions, in 20 s and 2 GB'
end

#!/usr/bin/env ruby
# statistics_test.rb - what allocators say of themselves is in a recording as they say it when the
# program asks at the same moment: glibc's arenas, chunks and thresholds, each event of them, which
# thread uses which arena, and the numbers of jemalloc and mimalloc. Prints TAP.

require 'json'
require 'open3'
require 'tmpdir'

require_relative '../tap'

LIBRARY = File.join(BUILD, 'lib/libmalloctape.so')
PROGRAM = File.join(BUILD, 'tests/workloads/statistics')
MALLOCTAPE = File.join(BUILD, 'bin/malloctape')
MOST_MAPPED = 32 << 20 # mallopt(3), M_MMAP_THRESHOLD: the dynamic one never exceeds it

def malloctape(*words) = output_of({}, MALLOCTAPE, *words)

# What the program prints; its recording is `which`.lz4.
def record(which, library = nil, settings = {}, *words)
  environment = { 'LD_PRELOAD' => [LIBRARY, library].compact.join(' '),
                  'TCMALLOC_TRACE_OUTPUT' => "#{which}.lz4", 'TCMALLOC_TRACE_QUIET' => '1',
                  'MALLOC_CONF' => 'dirty_decay_ms:-1,muzzy_decay_ms:-1' }
  output_of(environment.merge(settings), PROGRAM, which, *words)
end

# The program does, and its address space.
NOT_SAID = %w[rss_shared_bytes vm_size_bytes free_null malloc_usable_size].freeze

def said_by_info(which)
  JSON.parse(malloctape('info', '--json', '-', "#{which}.lz4"))['statistics'].except(*NOT_SAID)
end

def compare(text, told, wanted)
  notes = told == wanted ? [] : ["told:   #{told.inspect}", "wanted: #{wanted.inspect}"]
  report notes.empty?, text, notes
end

# ---- glibc ----

ARENAS = (2..8).map { |number| "arena_#{number}_bytes" }.freeze
NAMES = %w[arenas main_arena_bytes other_arenas_bytes mapped_chunks mapped_bytes
           mmap_threshold_bytes trim_threshold_bytes].concat(ARENAS).freeze

# The bytes of each arena by malloc_info(), in the order in which they were made: there the first
# one is followed by the latest.
def arenas_of(text)
  main, *others = text.scan(/<system type="current" size="(\d+)"/).flatten.map(&:to_i)[..-2]
  [main, *others.reverse]
end

# malloc_info() of one step, and the thresholds.
def of_malloc_info(text, thresholds)
  main, *others = arenas_of(text)
  mapped = text.match(/<total type="mmap" count="(\d+)" size="(\d+)"/)
  [1 + others.size, main, others.sum, mapped[1].to_i, mapped[2].to_i, *thresholds,
   *others.first(7), *[0] * [7 - others.size, 0].max]
end

# The values after each step: malloc_info(), and the thresholds by the rules of mallopt(3).
def steps_of(output)
  thresholds = [128 << 10, 128 << 10]
  chunk = nil
  output.split(/^step /).drop(1).map do |text|
    name = text.lines.first.chomp
    thresholds = [chunk, 2 * chunk] if name == 'freed' && (thresholds[0] + 1..MOST_MAPPED) === chunk
    chunk = text[/^chunk (\d+)/, 1]&.to_i
    [name, of_malloc_info(text, thresholds)]
  end
end

def ticks_of(which)
  malloctape('dump', "#{which}.lz4").scan(/ tick .* statistics (.*)$/)
    .map { |line| line[0].split.map(&:to_i)[..-1 - NOT_SAID.size] }
end

# Steps that are not in the ticks, in this order.
def missing(steps, ticks)
  at = 0
  steps.reject do |_, values|
    found = ticks[at..].index(values)
    at += found if found
  end
end

def changes(events, name) = events.select { |one| one['name'] == name }
def pairs(events) = events.map { |one| [one['before'], one['after']] }

# As many events as the values change; between two moments there may be ticks.
def check_trims(events, steps)
  main = steps.to_h.transform_values { |values| values[1] }
  trims = changes(events, 'main_arena_bytes')
  told = [trims.map { |one| one['event'] }.uniq, trims.first&.fetch('before'),
          trims.map { |one| one['after'] } & main.values_at('trimmed', 'malloc_trim')]
  compare 'each trim is an event', told,
          [['trimmed'], main['grown'], main.values_at('trimmed', 'malloc_trim').uniq]
end

def check_events(told, steps)
  events = told['events']
  arenas = pairs(changes(events, 'arenas'))
  compare 'the arenas are made one after another, up to 8',
          [arenas.first&.first, arenas.last&.last, arenas.flatten == arenas.flatten.sort],
          [1, 8, true]
  moved = steps.map { |_, values| values[5..6] }.uniq
  compare 'each move of a threshold is an event',
          %w[mmap_threshold_bytes trim_threshold_bytes].map { |name| pairs(changes(events, name)) },
          moved.transpose.map { |values| values.each_cons(2).to_a }
  check_trims(events, steps)
end

def check_glibc
  steps = steps_of(record('glibc'))
  ticks = ticks_of('glibc')
  absent = missing(steps, ticks)
  report absent.empty? && steps.size == 13, 'after each step a tick says what malloc_info() does',
         absent.map { |step| "missing: #{step}" } + (absent.empty? ? [] : ticks.map(&:inspect))
  compare 'info has the last values', said_by_info('glibc'), NAMES.zip(steps.last[1]).to_h
  malloctape('report', 'glibc.lz4', '--json', 'report.json')
  told = JSON.parse(File.read('report.json'))['statistics']
  compare 'report has them, too, and over time',
          [told['last'].except(*NOT_SAID),
           told['timeline'].transform_values(&:last).except(*NOT_SAID)],
          [NAMES.zip(steps.last[1]).to_h] * 2
  check_events(told, steps)
  text = malloctape('report', 'glibc.lz4') + malloctape('info', 'glibc.lz4')
  lines = ['arena made +arenas 8', 'trimmed +main_arena_bytes', 'mmap_threshold_bytes +4198400$',
           'threshold moved +mmap_threshold_bytes 4 198 400 bytes, before 1 052 672']
  absent = lines.reject { |line| text.match?(line) }
  report absent.empty?, 'the texts show it', absent
  output, status = Open3.capture2e(MALLOCTAPE, 'verify', 'glibc.lz4')
  report status.success?, 'the order keeps what the ticks say', status.success? ? [] : [output]
end

# ---- others ----

def check(which, library, text)
  path = Dir["/usr/lib/*/#{library}", "/lib/*/#{library}"].first
  return report(true, "#{text} # SKIP #{library} is not installed") unless path

  wanted = yield record(which, path)
  compare text, said_by_info(which), wanted
end

# Of later versions than the installed one.
def check_mimalloc_like(version, text, wanted)
  library = File.join(BUILD, 'tests/workloads/mimalloc_like.so')
  record('like', library, { 'MIMALLOC_LIKE' => version })
  compare text, said_by_info('like'), wanted
end

TUNED = %w[glibc.malloc.tcache_max=512 glibc.malloc.tcache_max=512:glibc.malloc.arena_test=4].freeze

def check_tuned_glibc
  TUNED.each do |tunables|
    steps = steps_of(record('glibc', nil, { 'GLIBC_TUNABLES' => tunables }))
    compare "glibc with #{tunables}", said_by_info('glibc'), NAMES.zip(steps.last[1]).to_h
  end
end

# Nothing is known then of a glibc of which too much is tuned.
def check_late
  [*TUNED, ''].zip([NAMES, [], NAMES]) do |tunables, names|
    record('begun', nil, { 'TCMALLOC_TRACE_OUTPUT' => nil, 'GLIBC_TUNABLES' => tunables },
           'begun.lz4')
    compare "recorded after the first call, with '#{tunables}'", said_by_info('begun').keys, names
  end
end

USED = [100, 200, 1000, 400, 500, 600, 700].freeze # objects, by arena
ENDED = (50..56).to_a.freeze

# Those of JSON, each as it would be of the program: where it begins, heaps, bytes, its thread.
def arenas_told(report)
  all, uses = report['arenas'].values_at('all', 'by_thread').map { |table| table.values.transpose }
  all.each_with_index.map do |arena, index|
    makers = uses.select { |at, _, _, made, _| at == index && made.positive? }
    [*arena, makers.map { |use| use[2] }]
  end
end

def check_arenas
  output = record('use', nil, { 'TCMALLOC_TRACE_ADDRESSES' => '1' })
  used = output.lines.first(7).map { |line| line.split.map(&:to_i) }
  bytes = arenas_of(output).drop(1)
  text = malloctape('report', 'use.lz4', '--json', 'report.json')
  told_all = JSON.parse(File.read('report.json'))
  _, *told = arenas_told(told_all)
  wanted = used.zip(USED, ENDED).map do |(begins, thread, heaps), made, ended|
    [begins, heaps, 1, made, ended, ended, [thread]]
  end
  compare 'which thread uses which arena, and who ends objects of others',
          told.map { |one| [*one[0..1], *one[3..]] }.sort, wanted.sort
  compare 'what is or was large, or is aligned, is in no arena, wherever the threshold moves',
          told_all['arenas'].values_at('mapped_made', 'mapped_ended'), [5, 5]
  compare 'the bytes that malloc_info() says', told.map { |one| one[2] }.sort, bytes.sort
  compare 'info has those of each arena', said_by_info('use').values_at(*ARENAS), bytes
  compare 'and of each heap', heaps_told(told_all['arenas']), told_all['arenas']['all']['bytes'].drop(1)
  lines = wanted.map { |one| /^  #{one[0].to_s(16)} +#{one[1]} .* 100 %   #{one[6][0]}$/ }
  lines.concat(wanted.select { |one| one[1] > 1 }.map { |one| /^    heap #{one[0].to_s(16)} +6[34].\d MiB$/ })
  absent = lines.reject { |line| text.match?(line) }
  report absent.empty?, 'the text shows each arena', absent.empty? ? [] : text.lines.last(12)
end

# The sums by arena; the main one has no heap.
def heaps_told(arenas)
  arenas['heaps'].values.transpose.group_by(&:last).sort.map { |_, heaps| heaps.sum { |one| one[1] } }
end

# Threads that continue lanes, in arenas of others that have ended: nobody ends what another made.
def check_turns
  output = record('turns', nil, { 'TCMALLOC_TRACE_ADDRESSES' => '1' })
  malloctape('report', 'turns.lz4', '--json', 'report.json')
  report = JSON.parse(File.read('report.json'))
  others = report['arenas']['all']['remote_frees'].drop(1)
  made = report['arenas']['by_thread'].values.transpose.map { |row| row[2..] }.to_h { |id, made, _| [id, made] }
  wanted = output.lines.to_h { |line| line.split.map(&:to_i) }
  compare 'threads in the same lane are told apart', [others.uniq, made.slice(*wanted.keys)], [[0], wanted]
  lanes = report['threads']['lane'].size
  report lanes < 7, 'which the test has', []
end

CHARTS = %w[/usr/share/javascript/chart.js /usr/share/nodejs/chart.js].freeze

def check_page
  text = 'the page shows each arena, and who uses it'
  unless CHARTS.any? { |path| File.exist?(path) } && system('node', '-v', out: File::NULL)
    return report(true, "#{text} # SKIP nodejs or libjs-chart.js is not installed")
  end

  malloctape('report', 'use.lz4', '--html', 'use.html')
  drawn = output_of({}, 'node', File.join(__dir__, '../tools/run_page.js'), 'use.html')
  shown = drawn.include?("glibc's arenas: 8 drawn, 8 rows\n")
  report shown, text, shown ? [] : drawn.lines
end

plan 27
Dir.mktmpdir do |directory|
  Dir.chdir(directory)
  check_glibc
  check_tuned_glibc
  check_late
  check_arenas
  check_turns
  check_page
  check('jemalloc', 'libjemalloc.so.2', 'jemalloc: what mallctl() says') do |output|
    output.lines.to_h { |line| [line.split[0], line.split[1].to_i] }
  end
  check('mimalloc', 'libmimalloc.so.2*', 'mimalloc: what mi_stats_print_out() says') do |output|
    current = output.scan(/^ *(segments|-abandoned): +\d+ +\d+ +\d+ +(-?\d+)/).first(2)
    %w[segments abandoned_segments].zip(current.map { |line| line[1].to_i.clamp(0..) }).to_h
  end
  check_mimalloc_like '2.2', 'mimalloc 2.2: another column has the current number',
                      { 'segments' => 2, 'abandoned_segments' => 1 }
  check_mimalloc_like '3', 'mimalloc 3 has no segments, and nothing is said', {}
  text = malloctape('info', 'like.lz4') + malloctape('report', 'like.lz4')
  compare 'nor is it announced', text.scan(/^(?:statistics |the allocator says)/), []
end

#!/usr/bin/env ruby
# frozen_string_literal: true

# collect_test.rb - what `malloctape sweep --collect` says of results whose numbers are known,
# against a calculation in Ruby. The results are made from a real one of `malloctape compare`.

require 'fileutils'
require 'json'
require 'tmpdir'
require_relative '../tap'

MALLOCTAPE = "#{BUILD}/bin/malloctape"
SOURCE = ENV.fetch('MALLOCTAPE_SOURCE') { File.expand_path('../..', __dir__) }
MIB = 1024.0 * 1024
RUNS = 5
TRACES = 25
PROCESS_MIB = 200.0
PROCESS_SECONDS = 40.0
RANDOM = Random.new(38)

if File.binread("#{BUILD}/bin/replay").match?(/__[at]san_init/)
  puts '1..0 # SKIP replays of an allocator are no replays with this sanitizer'
  exit
end

LONG = 'jemalloc:MALLOC_CONF=narenas:1,dirty_decay_ms:0'
GROUPS = [%w[glibc tcmalloc mimalloc same] + [LONG], %w[glibc jemalloc tbbmalloc varied]].freeze
ENTRIES = GROUPS.flatten.uniq.freeze

# ---- results that are known ----

# What an entry changes in a trace: of the memory and the time of the process.
def change(trace, entry)
  return [0, 0] if entry == 'glibc'
  return [0.002, 0.001] if entry == 'same'
  return [trace.even? ? -0.3 : 0.4, 0] if entry == 'varied'

  at = ENTRIES.index(entry)
  [0.02 * at * Math.sin(trace + at) - 0.1, 0.01 * at * Math.cos(trace + at) - 0.08]
end

# Replays of an entry on a machine that is `slow` times as slow.
def row(model, trace, entry, slow)
  memory, time = change(trace, entry)
  base = model['reports'][0]
  reports = (0...RUNS).map do |run|
    noise = 1 + (run - 2) * 0.0001
    base.merge('peak_net_rss_bytes' => (80 * MIB + memory * PROCESS_MIB * MIB) * noise,
               'user_seconds' => (10 + time * PROCESS_SECONDS) * slow * noise,
               'system_seconds' => 0.0)
  end
  name, settings = entry.split(':', 2)
  model.merge('entry' => entry, 'name' => name, 'recorded' => entry == 'glibc', 'reports' => reports,
              'settings' => settings ? [settings.split('=', 2)].to_h : {},
              'expected' => expected(memory, time))
end

def expected(memory, time)
  likely = time * PROCESS_SECONDS
  { 'peak_rss_bytes' => (1 + memory) * PROCESS_MIB * MIB,
    'mean_rss_bytes' => nil, 'end_rss_bytes' => nil, 'cpu_change_seconds' => likely,
    'cpu_change_least_seconds' => likely - 1, 'cpu_change_most_seconds' => likely + 1 }
end

def result(real, trace, group, machine)
  slow = machine == 'slow' ? 2 : 1
  real.merge(
    'trace' => real['trace'].merge('file' => "traces/#{trace}.p.lz4"),
    'machine' => real['machine'].merge('processor' => machine, 'host' => "#{machine}#{trace}",
                                       'load' => trace * 0.1),
    'original' => { 'peak_rss_bytes' => PROCESS_MIB * MIB, 'cpu_seconds' => PROCESS_SECONDS },
    'allocators' => GROUPS[group].map { |entry| row(real['allocators'][0], trace, entry, slow) }
  )
end

def id(trace, group) = format('trace%02d-%d-%08x', trace, group + 1, trace)

# A sweep in the directory; `machine` says on which one each result was made.
def sweep(directory, real, traces = TRACES, &machine)
  FileUtils.mkdir_p("#{directory}/results")
  ids = (0...traces).to_a.product([0, 1]).map do |trace, group|
    of = machine ? machine.call(trace, group) : 'fast'
    File.write("#{directory}/results/#{id(trace, group)}.json",
               JSON.generate(result(real, trace, group, of)))
    id(trace, group)
  end
  File.write("#{directory}/results.list", ids.map { |one| "#{one}\n" }.join)
end

def edit(directory, id)
  path = "#{directory}/results/#{id}.json"
  result = JSON.parse(File.read(path))
  yield result
  File.write(path, JSON.generate(result))
end

# ---- what is said of them ----

Said = Struct.new(:status, :text, :errors, :json, :seconds)

def collect(directory, *words)
  json = "#{directory}.json"
  before = Process.times
  text, errors, status = Open3.capture3({ 'COLUMNS' => '80' }, MALLOCTAPE, 'sweep', '--collect',
                                        directory, '--json', json, *words)
  after = Process.times
  seconds = after.cutime + after.cstime - before.cutime - before.cstime
  Said.new(status.exitstatus, text, errors, File.exist?(json) ? JSON.parse(File.read(json)) : nil,
           seconds)
end

STUDENT_24 = 2.0639

# Geometric mean and interval of what shares are changed by.
def mean(shares)
  logs = shares.map { |share| Math.log(1 + share) }
  middle = logs.sum / logs.size
  half = STUDENT_24 * Math.sqrt(logs.sum { |log| (log - middle)**2 } / (logs.size - 1) / logs.size)
  [middle, middle - half, middle + half].map { |log| Math.exp(log) - 1 }
end

def close?(one, other, by = 1e-4) = (one - other).abs < by

def row_of(said, trace, entry)
  said.json['rows'].find { |row| row['trace'] == format('trace%02d', trace) && row['entry'] == entry }
end

def entry_of(said, entry) = said.json['entries'].find { |one| one['entry'] == entry }

# ---- checks ----

def check(good, text, notes) = report(good, text, good ? [] : notes)

def wrong_rows(said)
  (0...TRACES).to_a.product(ENTRIES).reject do |trace, entry|
    memory, time = change(trace, entry)
    row = row_of(said, trace, entry)
    row['status'] == 'complete' && row['runs'] == RUNS && close?(row['memory']['change'], memory) &&
      close?(row['time']['change'], time) &&
      close?(row['peak_rss_bytes'], (1 + memory) * PROCESS_MIB * MIB, 10) &&
      row['recorded'] == (entry == 'glibc')
  end
end

def wrong_means(said)
  ENTRIES.reject do |entry|
    of = entry_of(said, entry)
    (0..1).all? do |at|
      shares = (0...TRACES).map { |trace| change(trace, entry)[at] }
      sum = of[%w[memory time][at]]
      wanted = mean(shares)
      sum.values_at('mean', 'least', 'most').zip(wanted).all? { |one, other| close?(one, other) } &&
        sum['traces'] == TRACES && close?(sum['worst'], shares.max) &&
        sum['worst_trace'] == format('trace%02d', shares.index(shares.max))
    end
  end
end

def checks_all(said)
  check said.status.zero? && said.errors.empty? && said.json['rows'].size == 200,
         'results are collected', [said.errors, said.json.keys.inspect]
  check said.seconds < 1.0, '200 rows in a second', ["#{said.seconds} s of processor time"]
  wrong = wrong_rows(said)
  check wrong.empty?, 'each row is the change from the recorded allocator', wrong.map(&:inspect)
  wrong = wrong_means(said)
  check wrong.empty?, 'over all: geometric mean, 95 % interval, worst case', wrong
end

def checks_noise(said)
  same = entry_of(said, 'same')
  varied = entry_of(said, 'varied')['memory']
  check same['memory']['traces_noise'] == TRACES && same['time']['traces_noise'] == TRACES &&
         varied['traces_less'] == 13 && varied['traces_more'] == 12 &&
         said.text.match?(/^same .* 0 +25 +0$/) && said.text.match?(/\+0\.2=/),
         'what is below the noise is said', [said.text]
end

def checks_best(said)
  wrong = (0...TRACES).reject do |trace|
    wanted = ENTRIES.min_by { |entry| change(trace, entry)[0] }
    said.json['traces'][trace]['best_memory'].include?(wanted)
  end
  check wrong.empty?, 'the best of each trace', wrong.map(&:to_s)
end

def checks_text(said)
  long = said.text.lines.reject { |line| line.chomp.size <= 80 }
  check long.empty?, 'lines of 80 columns', long
  text = said.text.gsub("\n  ", ' ')
  check text.match?(/^For memory over all traces: \S+, -\d.* \(95 % sure: -.* to -.*\)\.$/) &&
         said.text.include?("jemalloc (1): #{LONG}") && said.text.match?(/^jemalloc \(1\) +[-+]/),
         'the best over all traces; long names are numbers', [said.text]
end

# A group of a slower machine says the same, because it brings its own yardstick.
def checks_machines(real, equal)
  sweep('unequal', real) { |trace, group| trace < 2 && group == 1 ? 'slow' : 'fast' }
  said = collect('unequal')
  wrong = wrong_rows(said)
  marked = said.json['rows'].select { |row| row['elsewhere'] }
                            .map { |row| [row['trace'], row['entry']] }
  wanted = %w[trace00 trace01].product(%w[jemalloc tbbmalloc varied])
  check wrong.empty?, 'groups of unequal machines are joined through the recorded allocator',
         wrong.map(&:inspect)
  check marked.sort == wanted.sort && said.json['machines'].size == 2 &&
         said.text.include?('from 2 different machines') && said.text.match?(/[\d=]~/) &&
         equal.json['machines'].size == 1 && !equal.text.match?(/[\d=]~/),
         'rows of another machine are marked', [marked.inspect]
end

def checks_missing(real)
  sweep('missing', real, 3)
  File.delete("missing/results/#{id(0, 1)}.json")
  File.write("missing/results/#{id(1, 0)}.json", '{')
  edit('missing', id(2, 0)) do |result|
    result['allocators'][1].merge!('status' => 'failed', 'error' => 'an allocation failed')
  end
  edit('missing', id(2, 1)) { |result| result['allocators'][2]['allocator'] = 'tbbmalloc (2021)' }
  said = collect('missing')
  check said.status == 1 && said.json['missing'] == [id(0, 1)] &&
         said.json['unreadable'].map { |one| one['result'] } == [id(1, 0)] &&
         row_of(said, 0, 'jemalloc')['status'] == 'missing' &&
         row_of(said, 2, 'tcmalloc')['status'] == 'failed' &&
         said.text.include?("! 1 of 6 results are missing: #{id(0, 1)}") &&
         said.text.include?('! tcmalloc, trace02: an allocation failed') &&
         said.text.include?('! tbbmalloc: in 1 of the traces it is another version or build') &&
         !said.text.include?('! varied: '),
         'what is missing, unreadable or failed is listed', [said.text, said.errors]
  Dir.mkdir('nothing')
  said = collect('nothing')
  check said.status == 1 && said.errors.include?('not a sweep: results.list: No such file'), 'no sweep', [said.errors]
end

# After halving, what was dropped on the way is said.
def checks_halving(real)
  sweep('halved', real, 1)
  rounds = [{ 'runs' => 1, 'entries' => [{ 'entry' => 'bad', 'score' => 1.25, 'dropped' => true },
                                         { 'entry' => 'good', 'score' => 0.9, 'dropped' => false }] }]
  File.write('halved/halving.json', JSON.generate('by' => 'memory', 'rounds' => rounds))
  said = collect('halved')
  check said.text.include?('Dropped after round 1: bad, +25.0 %.') &&
         !said.text.include?('round 1: good'), 'what halving dropped is said', [said.text]
end

def checks_avro
  said = collect('all', '--avro', 'all.avro')
  rows = Open3.capture2('avrocat', 'all.avro')[0].lines.map { |line| JSON.parse(line) }
  value = ->(row, key) { row[key].is_a?(Hash) ? row[key].values[0] : row[key] }
  of = rows.select { |row| value[row, 'trace'] == 'trace03' && value[row, 'entry'] == LONG }
  memory = change(3, LONG)[0]
  check said.status.zero? && rows.size == TRACES * GROUPS.flatten.size * RUNS && of.size == RUNS &&
         of.map { |row| value[row, 'run'] } == (1..RUNS).to_a &&
         of.all? { |row| close?(value[row, 'memory_ratio'], 1 + memory, 1e-3) } &&
         value[of[0], 'settings'] == '{"MALLOC_CONF":"narenas:1,dirty_decay_ms:0"}' &&
         value[of[0], 'processor'] == 'fast' && value[of[0], 'recorded'] == false &&
         close?(value[of[2], 'cpu_seconds'], 10 + change(3, LONG)[1] * PROCESS_SECONDS) &&
         value[of[2], 'recorded_cpu_seconds'] == 10, 'Avro: a row a run', [of[0].inspect]
rescue Errno::ENOENT
  report true, 'Avro: a row a run # SKIP needs avro-bin'
end

def checks_page
  said = collect('all', '--html', 'all.html')
  unless said.errors[/no page: Chart.js/].nil? && system('node --version', out: File::NULL)
    return report(true, 'a page # SKIP needs node and libjs-chart.js')
  end

  printed = Open3.capture2e('node', "#{SOURCE}/tests/tools/run_page.js", 'all.html')[0]
  heat = printed[/^Memory, by trace.*?(?=^\S)/m].to_s
  check said.status.zero? && printed.include?("Memory, by trace: #{ENTRIES.size} rows") &&
         printed.include?("Time, over all traces: #{2 * ENTRIES.size} drawn") &&
         heat.match?(/glibc \|.*(now 200.0 MiB \| ){10}/) &&
         heat.match?(/varied \|.*−30.0 % 140.0 MiB \| \+40.0 % 280.0 MiB/), 'a page', [printed[0, 3000]]
end

Dir.mktmpdir do |directory|
  Dir.chdir(directory)
  File.binwrite('lanes', output_of({}, "#{BUILD}/tests/tools/make_instructions", 'lanes', '1000', '5'))
  output_of({}, MALLOCTAPE, 'compare', 'lanes', '-r', '1', '-a', 'glibc', '--json', 'real.json')
  real = JSON.parse(File.read('real.json'))
  plan 15
  sweep('all', real)
  all = collect('all')
  checks_all(all)
  checks_noise(all)
  checks_best(all)
  checks_text(all)
  checks_machines(real, all)
  checks_missing(real)
  checks_halving(real)
  checks_avro
  checks_page
end

# frozen_string_literal: true

# predict_measure - runs a program under each allocator, records it once, replays the recording
# under each allocator, and puts both side by side.

require 'fileutils'
require 'json'
require_relative 'predict_programs'

# One run, or replay.
PredictRun = Struct.new(:peak, :end, :user, :system, :faults) do
  def cpu = user + system
end

# What runs or replays took. For replays also `expected`, the peak RSS that compare expects of the
# process, if it does, and the range of the change of its processor time.
PredictUsage = Struct.new(:runs, :expected, :cpu_least, :cpu_most) do
  def peak = predict_median(runs.map(&:peak))
  def end = predict_median(runs.map(&:end))

  # The lower quartile, because disturbances only make a run longer.
  def cpu = runs.map(&:cpu).sort[(runs.size - 1) / 4]
end

# Of one program: what was measured, and by each way of replaying what was predicted, by the entry;
# and what the recording says of the process.
PredictResult = Struct.new(:name, :events, :threads, :real, :predicted, :original)

# ---- results as JSON ----

def predict_plain(of)
  case of
  when Struct then predict_plain(of.to_h)
  when Hash then of.transform_values { |value| predict_plain(value) }
  when Array then of.map { |value| predict_plain(value) }
  else of
  end
end

def predict_usage_read(of)
  runs = of['runs'].map { |run| PredictRun.new(*run.values) }
  PredictUsage.new(runs, *of.values_at('expected', 'cpu_least', 'cpu_most'))
end

# Results of a file that --json has written.
def predict_results_read(path)
  JSON.parse(File.read(path)).map do |one|
    usages = ->(of) { of.transform_values { |usage| predict_usage_read(usage) } }
    PredictResult.new(*one.values_at('name', 'events', 'threads'), usages[one['real']],
                      one['predicted'].transform_values(&usages), one['original'])
  end
end

# ---- measuring ----

# The middle of some numbers.
def predict_median(numbers)
  sorted = numbers.sort
  (sorted[(sorted.size - 1) / 2] + sorted[sorted.size / 2]) / 2.0
end

# One program.
class PredictMeasurement
  # Ways of replaying, as words of compare. `threads` is for programs with threads alone: of others
  # it is `pages`.
  WAYS = {
    'default' => [],
    'none' => %w[--engine switch -- --touch none],
    'line' => %w[--engine switch -- --touch line],
    'pages' => %w[--engine switch -- --touch pages],
    'threads' => %w[--engine threads -- --touch pages]
  }.freeze

  DEFAULT_ALLOCATORS = %w[tcmalloc glibc jemalloc mimalloc].freeze
  # What compare can be asked for without another allocator: tried with programs that have threads.
  SETTINGS = %w[glibc:MALLOC_ARENA_MAX=1 jemalloc:MALLOC_CONF=dirty_decay_ms:0
                tcmalloc:TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES=1048576].freeze

  # In front of what a program is linked with: redis-server has jemalloc.
  GLIBC = 'libc.so.6'

  # With fewer runs, a difference cannot be told from noise.
  RUNS_LEAST = 5
  RUNS_MOST = 15

  def initialize(program, build_dir, dir, options)
    @program = program
    @dir = dir
    @options = options
    @malloctape = File.join(build_dir, 'bin/malloctape')
    @usage = File.join(build_dir, 'bench/workloads/usage')
    @recorder = { 'LD_PRELOAD' => File.join(build_dir, 'lib/libtcmalloc_minimal_tracing.so') }
    @trace = File.join(dir, 'trace.lz4')
  end

  def take
    @program.prepare(@dir)
    info = record
    compared = @options.ways.to_h { |way| [way, compare(way)] }
    entries = compared.values.first.fetch('allocators')
    predicted = compared.transform_values { |one| rows_of(one) }
    PredictResult.new(@program.name, info.events, info.info['threads'], real(entries), predicted,
                      compared.values.first.fetch('original'))
  end

  private

  def record
    FileUtils.rm_f(@trace)
    @program.run(@recorder.merge('TCMALLOC_TRACE_OUTPUT' => @trace), @dir)
    Recording.new(@malloctape, @trace, @dir)
  end

  def compare(way)
    json = File.join(@dir, 'compare.json')
    words = WAYS.fetch(way == 'threads' && !@program.threads ? 'pages' : way)
    command = [@malloctape, 'compare', @trace, '--allocators', allocators, '--runs',
               @options.replays.to_s, '--json', json, *words]
    Child.run(command, File.join(@dir, 'compare.log'))
    JSON.parse(File.read(json))
  end

  def allocators
    return @options.allocators if @options.allocators
    return DEFAULT_ALLOCATORS.join(',') unless @program.threads

    [*DEFAULT_ALLOCATORS, *SETTINGS].join(',')
  end

  def rows_of(compared)
    rows = compared.fetch('allocators')
    failed = rows.find { |row| row['status'] != 'complete' }
    raise BenchError, "#{failed['entry']}: #{failed['error']}" if failed

    rows.to_h { |row| [row['entry'], predicted_of(row)] }
  end

  def predicted_of(row)
    keys = %w[peak_net_rss_bytes end_net_rss_bytes user_seconds system_seconds minor_faults]
    runs = row.fetch('reports').map { |report| PredictRun.new(*report.fetch_values(*keys)) }
    expected = row.fetch('expected')
    PredictUsage.new(runs, expected['peak_rss_bytes'], expected['cpu_change_least_seconds'],
                     expected['cpu_change_most_seconds'])
  end

  # All runs of all entries, in turns, each time in another order.
  def real(entries)
    runs = entries.to_h { |entry| [entry['entry'], []] }
    started = Child.now
    RUNS_MOST.times do |round|
      break if @options.runs ? round == @options.runs : enough?(round, Child.now - started)

      entries.shuffle(random: Random.new(round)).each do |entry|
        runs[entry['entry']] << real_run(entry)
      end
    end
    runs.transform_values { |of| PredictUsage.new(of) }
  end

  # As many as take the time that each program has.
  def enough?(round, seconds) = round >= RUNS_LEAST && seconds > @options.seconds

  def real_run(entry)
    file = File.join(@dir, 'usage.json')
    environment = { 'LD_PRELOAD' => entry['library'].empty? ? GLIBC : entry['library'] }
    @program.run(environment.merge(entry['settings']), @dir, usage: [@usage, file])
    keys = %w[peak_rss_bytes end_rss_bytes user_seconds system_seconds minor_faults]
    PredictRun.new(*JSON.parse(File.read(file)).fetch_values(*keys))
  end
end

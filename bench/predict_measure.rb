# frozen_string_literal: true

# predict_measure - runs a program under each allocator, records it once, replays the recording
# under each allocator, and puts both side by side.

require 'fileutils'
require 'json'
require_relative 'predict_programs'

# What a run took, or a replay. Of a replay also `expected`, the RSS of the process that compare
# expects at the peak, where it does, and the range of the change of its processor time.
PredictUsage = Struct.new(:peak, :end, :cpu, :noise, :expected, :cpu_least, :cpu_most,
                          keyword_init: true)

# Of one program: what was measured, and by each way of replaying what was predicted, by the entry.
PredictResult = Struct.new(:name, :events, :threads, :real, :predicted)

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
    PredictResult.new(@program.name, info.events, info.info['threads'], real(entries), predicted)
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
    median = ->(key) { predict_median(row.fetch('reports').map { |report| report.fetch(key) }) }
    cpu = %w[user_seconds system_seconds].sum { |key| median[key] }
    expected = row.fetch('expected')
    PredictUsage.new(peak: median['peak_net_rss_bytes'], end: median['end_net_rss_bytes'], cpu:,
                     expected: expected['peak_rss_bytes'],
                     cpu_least: expected['cpu_change_least_seconds'],
                     cpu_most: expected['cpu_change_most_seconds'])
  end

  # All runs of all entries, in turns.
  def real(entries)
    runs = entries.to_h { |entry| [entry['entry'], []] }
    @options.runs.times do |round|
      in_turn = round.even? ? entries : entries.reverse
      in_turn.each { |entry| runs[entry['entry']] << real_run(entry) }
    end
    runs.transform_values { |of| real_median(of) }
  end

  def real_run(entry)
    file = File.join(@dir, 'usage.json')
    environment = { 'LD_PRELOAD' => entry['library'].empty? ? nil : entry['library'] }
    @program.run(environment.merge(entry['settings']), @dir, usage: [@usage, file])
    took = JSON.parse(File.read(file))
    PredictUsage.new(peak: took['peak_rss_bytes'], end: took['end_rss_bytes'],
                     cpu: took['user_seconds'] + took['system_seconds'])
  end

  def real_median(runs)
    cpu = runs.map(&:cpu)
    PredictUsage.new(peak: predict_median(runs.map(&:peak)), end: predict_median(runs.map(&:end)),
                     cpu: predict_median(cpu), noise: cpu.max - cpu.min)
  end
end

# frozen_string_literal: true

# predict_measure - runs a program under each allocator, records it once, replays the recording
# under each allocator, and puts both side by side.

require 'fileutils'
require 'json'
require_relative 'predict_programs'

# What a run took; `expected` is what compare says that a run would have at most, where it does.
PredictUsage = Struct.new(:peak, :end, :cpu, :expected, :noise, keyword_init: true)

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
    command = [@malloctape, 'compare', @trace, '--allocators', @options.allocators, '--runs',
               @options.replays.to_s, '--json', json, *words]
    Child.run(command, File.join(@dir, 'compare.log'))
    JSON.parse(File.read(json))
  end

  def rows_of(compared)
    rows = compared.fetch('allocators')
    failed = rows.find { |row| row['status'] != 'complete' }
    raise BenchError, "#{failed['entry']}: #{failed['error']}" if failed

    rows.to_h { |row| [row['entry'], predicted_of(row)] }
  end

  def predicted_of(row)
    numbers = row.fetch('numbers')
    median = ->(key) { numbers.dig(key, 'median') }
    cpu = %w[user_seconds system_seconds].sum { |key| median[key] }
    PredictUsage.new(peak: median['peak_net_rss_bytes'], end: row['series']['net_rss_bytes'].last,
                     cpu:, expected: row.dig('expected', 'peak_rss_bytes'))
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

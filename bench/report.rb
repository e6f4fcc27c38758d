# frozen_string_literal: true

# report - the table, the JSON, and remarks about the numbers.

require 'etc'
require 'json'
require_relative 'workloads'

# The lowest, the middle and the highest of some numbers, and how many these are. The median of all
# the numbers of which these are a sample lies between `low` and `high`, with a probability of 95 %
# or more, for any distribution: an interval between two of the sorted numbers (order statistics; it
# takes at least six numbers).
Spread = Struct.new(:min, :low, :median, :high, :max, :runs) do
  def self.of(numbers)
    sorted = numbers.sort
    middle = sorted.size / 2
    outside = outside_interval(sorted.size)
    new(sorted.first, outside && sorted[outside],
        sorted.size.odd? ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2,
        outside && sorted[-1 - outside], sorted.last, sorted.size)
  end

  # How many of `size` sorted numbers lie on either side of the interval. That the median of all
  # lies beyond the first k of them, to the left, is k - 1 or fewer heads in `size` throws of a
  # coin.
  def self.outside_interval(size)
    ways = 1 # to choose k of them
    at_most = 0 # all ways to choose k or fewer
    (0..size).each do |k|
      at_most += ways
      return (k - 1 if k.positive?) if at_most > 0.025 * (2**size)

      ways = ways * (size - k) / (k + 1)
    end
  end
end

# One line of the table. `met` is nil where there is nothing to meet.
Result = Struct.new(:workload, :measure, :spread, :bar, :met)

MEASURES = {
  wall_off: 'wall, off / plain',
  cpu_off: 'CPU, off / plain',
  wall_on: 'wall, on / plain',
  cpu_on: 'CPU, on / plain',
  bytes: 'raw bytes per event'
}.freeze
MEASURES_STACKS = { wall_sampled: 'wall, sampled / recorded', wall_all: 'wall, all / plain' }.freeze

# The results of one measurement, measure by measure, with their bars. A run with a hundredth of the
# work is not judged.
def results_of(measurement, bars, judged)
  workload = measurement.workload
  measures = measurement.times.key?(:all) ? MEASURES_STACKS : MEASURES
  measures.keys.map do |measure|
    spread = Spread.of(numbers_of(measurement, measure))
    bar = bars[measure]
    Result.new(workload.name, measure, spread, bar, bar && judged ? spread.median <= bar : nil)
  end
end

def numbers_of(measurement, measure)
  return measurement.bytes_per_event if measure == :bytes
  return measurement.ratios(:sampled, :wall, :on) if measure == :wall_sampled

  what, mode = measure.to_s.split('_').map(&:to_sym)
  measurement.ratios(mode, what)
end

# --- the machine ----------------------------------------------------------------------------------

def load_average = File.read('/proc/loadavg').split.first(3).map(&:to_f)

def machine(allocator, versions)
  {
    'cpu' => File.read('/proc/cpuinfo')[/^model name\s*: (.*)/, 1] || 'unknown',
    'cores' => Etc.nprocessors,
    'kernel' => Etc.uname.values_at(:sysname, :release, :machine).join(' '),
    'allocator' => allocator,
    'libraries' => [Etc.confstr(Etc::CS_GNU_LIBC_VERSION), *lz4_version],
    'programs' => versions,
    'load_average_before' => load_average
  }
end

def lz4_version
  version = Installed.ask('pkg-config', '--modversion', 'liblz4')
  version ? ["lz4 #{version}"] : []
end

def machine_print(machine)
  machine.each { |key, value| puts "#{key.tr('_', ' ').ljust(20)} #{Array(value).join(', ')}" }
end

# --- the table ------------------------------------------------------------------------------------

COLUMNS = [*%w[workload measure bar median], '95 %', *%w[min max runs met]].freeze

def met_text(result)
  { true => 'yes', false => 'NO', nil => '-' }.fetch(result.met)
end

def result_row(result, first)
  spread = result.spread
  median, min, max = [spread.median, spread.min, spread.max].map { |number| ratio_text(number) }
  [first ? result.workload : '', MEASURES.merge(MEASURES_STACKS).fetch(result.measure), result.bar ? result.bar.to_s : '-',
   median,
   interval_text(spread), min, max, spread.runs.to_s, met_text(result)]
end

def ratio_text(number) = format('%.3f', number)
def interval_text(spread)
  spread.low ? "#{ratio_text(spread.low)}-#{ratio_text(spread.high)}" : '-'
end

def table_rows(results)
  results.each_with_index.map do |result, index|
    result_row(result, index.zero? || results[index - 1].workload != result.workload)
  end
end

def table_print(results)
  print_columns([COLUMNS, *table_rows(results)])
end

# --- what call stacks cost ------------------------------------------------------------------------

STACK_COLUMNS = %w[workload how wall min max seconds CPU RSS MiB bytes].freeze
STACK_MODES = { plain: 'untraced', on: 'recorded', sampled: 'sampled', all: 'all stacks',
                heaptrack: 'heaptrack' }.freeze

def stacks_print(measurements)
  rows = measurements.flat_map { |measurement| stack_rows(measurement) }
  print_columns([STACK_COLUMNS, *rows])
end

def stack_rows(measurement)
  measurement.times.map do |mode, runs|
    next ['', STACK_MODES.fetch(mode), 'failed', *[''] * 7] if runs.empty?

    wall, cpu, rss = %i[wall cpu rss].map { |what| Spread.of(measurement.ratios(mode, what)) }
    bytes = measurement.bytes[mode]
    [mode == :plain ? measurement.workload.name : '', STACK_MODES.fetch(mode),
     *[wall.median, wall.min, wall.max].map { |number| format('%.2f', number) },
     format('%.2f', Spread.of(runs.map(&:wall)).median), format('%.2f', cpu.median),
     format('%.2f', rss.median), format('%.1f', Spread.of(runs.map(&:rss)).median.fdiv(1 << 20)),
     bytes.empty? ? '-' : format('%.2f', Spread.of(bytes).median)]
  end
end

def print_columns(rows)
  widths = rows.transpose.map { |column| column.map(&:length).max }
  rows.each do |row|
    cells =
      row.each_with_index.map { |text, i| i < 2 ? text.ljust(widths[i]) : text.rjust(widths[i]) }
    puts cells.join('   ')
  end
end

def bars_print(results)
  judged = results.reject { |result| result.met.nil? }
  puts "#{judged.count(&:met)} of #{judged.size} bars are met." unless judged.empty?
end

NOTES = <<~TEXT
  plain: the allocator alone; off: with the library that records, nothing recorded; on: recording.
  Each ratio is of two runs of one round, which took turns. 95 %: how far the true median may be,
  with this probability.
  redis: wall is redis-benchmark's, CPU the server's. A bar is met when the median is not above it.

  Not measured here: memory; the longest pause of a single call; what a recording costs while a
  disk is slow or full (what is written goes to the page cache); programs with more threads than
  this machine has cores; putting the recording in order and replaying it; other allocators than
  this one. Ping-pong waits by yielding: its CPU time is mostly waiting. Other work on the
  machine is in all the numbers: see the load average, and minimum and maximum.
TEXT

NOTES_STACKS = <<~TEXT
  wall, CPU, RSS: as ratios to the untraced run of the same round, medians; min, max: of wall.
  seconds: wall. CPU and RSS are of the whole process, with the writer. MiB: the most RSS, the file
  of events on its way to the writer included. bytes: of the finished file, for each call. heaptrack
  ran once; CPU and RSS (the most that one of its processes has) are with its interpreter. redis:
  wall is redis-benchmark's, CPU and RSS the server's.

  Bars: all stacks beside untraced, and sampled beside recorded, as walls of the same round.
TEXT

# --- JSON -----------------------------------------------------------------------------------------

def result_json(result)
  { 'workload' => result.workload, 'measure' => result.measure,
    **result.spread.to_h.transform_keys(&:to_s),
    'bar' => result.bar, 'met' => result.met }
end

def measurement_json(measurement)
  {
    'workload' => measurement.workload.name,
    'text' => measurement.workload.text,
    'rounds' => measurement.recordings.size,
    'events' => measurement.recordings.map(&:events),
    'bytes_per_event' => measurement.bytes_per_event,
    'wall_seconds' => measurement.times.transform_values { |runs| runs.map(&:wall) },
    'cpu_seconds' => measurement.times.transform_values { |runs| runs.map(&:cpu) },
    'peak_rss_bytes' => measurement.times.transform_values { |runs| runs.filter_map(&:rss) },
    'waits_for_writer' => measurement.recordings.map { |recording| recording.info['waits'] }
  }
end

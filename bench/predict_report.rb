# frozen_string_literal: true

# predict_report - how good the predictions are, over all programs: a line for each way of
# replaying.

require_relative 'predict_measure'

PREDICT_MIB = 1024.0 * 1024

# Two entries of one program: what really differs between them, and what replays of them differ in.
PredictPair = Struct.new(:real, :predicted, :decided, :said) do
  def sign_right? = (real <=> 0) == (predicted <=> 0)
  def error = (predicted - real).abs
end

# Of the normal distribution, for 95 and 99 %.
PREDICT_95 = 1.96
PREDICT_99 = 2.576

# The difference of two lists of numbers: the median of all differences, and the interval that has
# it (Hodges and Lehmann, Mann and Whitney).
PredictDifference = Struct.new(:median, :least, :most) do
  def self.of(one, other, deviations)
    all = other.product(one).map { |b, a| b - a }.sort
    spread = Math.sqrt(all.size * (one.size + other.size + 1) / 12.0)
    outside = [((all.size / 2.0) - (deviations * spread)).floor - 1, 0].max
    new(predict_median(all), all[outside], all[-1 - outside])
  end

  def sure? = least.positive? || most.negative?
end

# Of a number that runs have: peak, end, cpu.
def predict_difference(number, one, other, deviations) =
  PredictDifference.of(one.runs.map(&number), other.runs.map(&number), deviations)

# Memory that differs by more than noise, by compare's rule, and by more than 1 MiB and 1 %.
def predict_bytes_decided?(number, one, other)
  difference = predict_difference(number, one, other, PREDICT_95)
  least = [one, other].map { |usage| usage.public_send(number) }.min
  difference.sure? && difference.median.abs > [PREDICT_MIB, 0.01 * least].max
end

# Processor times that differ by more than noise, and by more than 1 %.
def predict_cpu_decided?(one, other)
  difference = predict_difference(:cpu, one, other, PREDICT_99)
  difference.sure? && (one.cpu - other.cpu).abs > 0.01 * [one.cpu, other.cpu].min
end

# Those of replays which `compare` would not call equal, of a program that used `seconds`: they
# are told apart where that would show in the program (compare_cpu_least()).
def predict_cpu_said?(one, other, seconds)
  difference = predict_difference(:cpu, one, other, PREDICT_95)
  surely = 0.03 * seconds / 0.35
  (difference.least > surely || difference.most < -surely) &&
    difference.median.abs > 0.05 * [one.cpu, other.cpu].min
end

# What is compared: the value, and whether two can be told apart.
PREDICT_MEASURES = {
  'peak RSS' => { unit: PREDICT_MIB, value: :peak.to_proc,
                  decided: ->(a, b) { predict_bytes_decided?(:peak, a, b) } },
  'RSS at the end' => { unit: PREDICT_MIB, value: :end.to_proc,
                        decided: ->(a, b) { predict_bytes_decided?(:end, a, b) } },
  'CPU' => { unit: 1, value: :cpu.to_proc, decided: method(:predict_cpu_decided?) }
}.freeze

# Programs whose threads spin while they wait, which is most of their processor time.
PREDICT_BUSY_WAITING = %w[redis].freeze

def predict_with_cpu(results) =
  results.reject { |result| PREDICT_BUSY_WAITING.include?(result.name) }

# Entries that are allocators without settings, unless there are no others.
def predict_without_settings(entries)
  plain = entries.keys.reject { |entry| entry.include?(':') }
  plain.size > 1 ? plain : entries.keys
end

# One way of replaying, one measure.
class PredictScore
  def initialize(results, way, measure)
    @results = measure == 'CPU' ? predict_with_cpu(results) : results
    @way = way
    @measure = PREDICT_MEASURES.fetch(measure)
    @value = @measure[:value]
  end

  def cells
    decided = pairs.select(&:decided)
    right = decided.count(&:sign_right?)
    errors = pairs.map { |pair| pair.error / @measure[:unit] }
    share = decided.empty? ? '-' : format('%.0f %%', 100.0 * right / decided.size)
    [share, "#{right}/#{decided.size}",
     correlation, format('%.2f', errors.sum / errors.size), format('%.2f', predict_median(errors)),
     *least]
  end

  # For processor time: in how many of the pairs that differ compare says which one takes less.
  def said
    decided = pairs.select(&:decided)
    said = decided.select(&:said)
    "of #{decided.size} pairs that differ, compare names the lesser in #{said.size}, " \
      "rightly in #{said.count(&:sign_right?)}; it names one in #{pairs.count(&:said)} " \
      "of all #{pairs.size}"
  end

  private

  def pairs
    @pairs ||= @results.flat_map do |result|
      two = predict_without_settings(result.real).combination(2)
      two.map { |one, other| pair(result, one, other) }
    end
  end

  def pair(result, one, other)
    real = result.real.values_at(one, other)
    predicted = result.predicted.fetch(@way).values_at(one, other)
    said = predict_cpu_said?(*predicted, result.original['cpu_seconds'] || 0)
    PredictPair.new(difference_of(real), difference_of(predicted), @measure[:decided].call(*real),
                    said)
  end

  def difference_of(two) = @value.call(two[1]) - @value.call(two[0])

  # Of the differences, over all pairs.
  def correlation
    real = pairs.map(&:real)
    predicted = pairs.map(&:predicted)
    deviation = ->(of) { mean = of.sum.fdiv(of.size); of.map { |x| x - mean } }
    x = deviation[real]
    y = deviation[predicted]
    product = Math.sqrt(x.sum { |v| v * v } * y.sum { |v| v * v })
    product.zero? ? '-' : format('%.2f', x.zip(y).sum { |a, b| a * b } / product)
  end

  # In how many programs the best entry by replays is really the best, or as good; and how much
  # more, at worst, the best one by replays takes.
  def least
    regrets = @results.map do |result|
      plain = predict_without_settings(result.real)
      real = result.real.slice(*plain).transform_values(&@value)
      replayed = result.predicted.fetch(@way).slice(*plain)
      chosen = replayed.min_by { |_, one| @value.call(one) }.first
      real.fetch(chosen) / real.values.min - 1
    end
    found = regrets.count { |regret| regret < 0.01 }
    ["#{found} of #{regrets.size}", format('%.1f %%', 100 * regrets.max)]
  end
end

PREDICT_HEAD = ['replay', 'sign right', 'of', 'correlation', 'error: mean', 'median', 'best found',
                'regret'].freeze

def predict_print_rows(rows)
  widths = rows.transpose.map { |column| column.map(&:length).max }
  rows.each do |row|
    cells = row.zip(widths).map { |text, width| text.rjust(width) }
    puts "#{row.first.ljust(widths.first)}  #{cells.drop(1).join('  ')}"
  end
  puts
end

def predict_print_scores(results, ways)
  PREDICT_MEASURES.each do |measure, how|
    next if measure == 'CPU' && predict_with_cpu(results).empty?

    puts "#{measure}, #{how[:unit] == 1 ? 's' : 'MiB'}"
    rows = ways.map { |way| [way, *PredictScore.new(results, way, measure).cells] }
    predict_print_rows([PREDICT_HEAD, *rows])
  end
  return if predict_with_cpu(results).empty?

  ways.each { |way| puts "CPU, #{way}: #{PredictScore.new(results, way, 'CPU').said}" }
end

def predict_print_result(result, ways)
  puts "#{result.name}: #{result.events} events, #{result.threads} threads"
  head = ['', 'peak', *ways, 'expected', 'end', *ways, 'CPU', *ways]
  rows = result.real.map do |entry, real|
    predicted = ways.map { |way| result.predicted.fetch(way).fetch(entry) }
    expected = predicted.filter_map(&:expected).first
    bytes = [real.peak, *predicted.map(&:peak), expected, real.end, *predicted.map(&:end)]
    [entry, *bytes.map { |one| predict_mib(one) },
     *[real.cpu, *predicted.map(&:cpu)].map { |seconds| format('%.2f', seconds) }]
  end
  predict_print_rows([head, *rows])
end

def predict_mib(bytes) = bytes ? format('%.1f', bytes / PREDICT_MIB) : '-'

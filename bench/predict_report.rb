# frozen_string_literal: true

# predict_report - how good the predictions are, over all programs: a line for each way of
# replaying.

require_relative 'predict_measure'

PREDICT_MIB = 1024.0 * 1024

# Two entries of one program: what really differs between them, and what replays of them differ in.
PredictPair = Struct.new(:real, :predicted, :decided) do
  def sign_right? = (real <=> 0) == (predicted <=> 0)
  def error = (predicted - real).abs
end

# How much two sizes must differ to be told apart.
def predict_least_bytes(one, other) = [PREDICT_MIB, 0.01 * [one, other].max].max

# What is compared: the value, and how much two of them must differ to be told apart.
PREDICT_MEASURES = {
  'peak RSS' => { unit: PREDICT_MIB, value: :peak.to_proc,
                  least: ->(one, other) { predict_least_bytes(one.peak, other.peak) } },
  'RSS at the end' => { unit: PREDICT_MIB, value: :end.to_proc,
                        least: ->(one, other) { predict_least_bytes(one.end, other.end) } },
  'CPU' => { unit: 1, value: :cpu.to_proc,
             least: ->(one, other) { 0.01 * one.cpu } }
}.freeze

# Entries that are allocators without settings, unless there are no others.
def predict_without_settings(entries)
  plain = entries.keys.reject { |entry| entry.include?(':') }
  plain.size > 1 ? plain : entries.keys
end

# One way of replaying, one measure.
class PredictScore
  def initialize(results, way, measure)
    @results = results
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

  private

  def pairs
    @pairs ||= @results.flat_map do |result|
      predict_without_settings(result.real).combination(2).map { |one, other| pair(result, one, other) }
    end
  end

  def pair(result, one, other)
    real = result.real.values_at(one, other)
    predicted = result.predicted.fetch(@way).values_at(one, other)
    difference = difference_of(real)
    decided = difference.abs > @measure[:least].call(*real)
    PredictPair.new(difference, difference_of(predicted), decided)
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

  # In how many programs the entry that replays best is the one that really is, or as good as that;
  # and how much more, at worst, the one takes that replays say is best.
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
    puts "#{measure}, #{how[:unit] == 1 ? 's' : 'MiB'}"
    rows = ways.map { |way| [way, *PredictScore.new(results, way, measure).cells] }
    predict_print_rows([PREDICT_HEAD, *rows])
  end
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

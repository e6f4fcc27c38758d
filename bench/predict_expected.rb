# frozen_string_literal: true

# predict_expected - how far compare's expectations are from the real process: its memory, the range
# of its processor time, and the effect of an allocator's settings on its memory.

require_relative 'predict_report'

# Of one way of replaying.
class PredictExpected
  # The recorded one: changes of processor time are to its own.
  RECORDED = 'tcmalloc'
  # What a setting really does to the peak, and what it does in replays. The latter is right if it
  # is within 15 % or 2 MiB of the real effect, and wrong if it is not within that of any value in
  # the real effect's interval.
  Effect = Struct.new(:entry, :program, :real, :replayed) do
    def judged
      bar = [0.15 * real.median.abs, 2 * PREDICT_MIB].max
      return :right if (real.median - replayed).abs <= bar

      replayed.between?(real.least - bar, real.most + bar) ? :noise : :wrong
    end
  end
  WORDS = { right: '', noise: ', within noise', wrong: ', wrong' }.freeze

  # The real change of processor time, and what compare and the replays say of it.
  Change = Struct.new(:real, :least, :most, :replayed, :decided) do
    def held? = real.between?(least, most)
    def sign_right? = (real <=> 0) == (replayed <=> 0)
    def tie? = least <= 0 && most >= 0
    def names_right? = real.positive? ? least.positive? : most.negative?
  end

  def initialize(results, way)
    @results = results
    @way = way
  end

  def print
    puts "expected of the process, by replays of #{@way}:"
    print_memory
    print_range
    print_settings
    puts
  end

  private

  # The block's results for each entry of each program, without nils.
  def entries(results = @results)
    results.flat_map do |result|
      predicted = result.predicted.fetch(@way)
      predicted.filter_map { |entry, one| yield(result, entry, result.real.fetch(entry), one) }
    end
  end

  # Not of the recorded one, for which the recorded memory itself is expected.
  def print_memory
    others = entries { |_, entry, real, one| [real, one] unless entry == RECORDED }
    of = others.size
    errors = others.filter_map { |real, one| (one.expected / real.peak - 1).abs if one.expected }
    return puts("  RSS at the peak: of none of #{of}") if errors.empty?

    puts format('  RSS at the peak: of %d of %d, off by %.1f %% on average, %.1f %% at most',
                errors.size, of, 100 * errors.sum / errors.size, 100 * errors.max)
  end

  def changes
    entries(predict_with_cpu(@results)) do |result, entry, real, one|
      before = result.real[RECORDED]
      next if entry == RECORDED || before.nil? || one.cpu_least.nil?

      replayed = one.cpu - result.predicted.fetch(@way).fetch(RECORDED).cpu
      Change.new(real.cpu - before.cpu, one.cpu_least, one.cpu_most, replayed,
                 predict_cpu_decided?(before, real))
    end
  end

  def print_range
    all = changes
    return if all.empty?

    decided = all.select(&:decided)
    named = decided.reject(&:tie?)
    puts format('  processor time: the range holds %d of %d real changes, %d of %d above noise',
                all.count(&:held?), all.size, decided.count(&:held?), decided.size)
    puts format('  of those above noise it says more or less of %d, rightly of %d; of all it ' \
                'says no difference of %d', named.size, named.count(&:names_right?),
                all.count(&:tie?))
    print_times(decided.select(&:sign_right?))
  end

  # The ratio of the real difference to that of replays.
  def print_times(changes)
    return if changes.empty?

    times = changes.map { |one| one.real / one.replayed }.sort
    at = ->(share) { times[((times.size - 1) * share).round] }
    puts format('  these are %.2f times those of the replays, eight of ten %.2f to %.2f (%d)',
                predict_median(times), at[0.1], at[0.9], times.size)
  end

  # What each setting does to the peak, really and by replays.
  def effects
    entries do |result, entry, real, one|
      base = entry[/\A[^:]+/]
      next if base == entry || !result.real.key?(base)

      Effect.new(entry, result.name,
                 predict_difference(:peak, result.real.fetch(base), real, PREDICT_95),
                 one.peak - result.predicted.fetch(@way).fetch(base).peak)
    end
  end

  def print_settings
    all = effects.sort_by { |effect| [effect.entry, effect.program] }
    return if all.empty?

    all.each do |effect|
      bytes = [*effect.real, effect.replayed].map { |number| number / PREDICT_MIB }
      puts format('  %-50s %-14s %+6.1f (%+.1f to %+.1f) MiB, by replays %+6.1f%s', effect.entry,
                  effect.program, *bytes, WORDS.fetch(effect.judged))
    end
    right, noise = %i[right noise].map { |what| all.count { |effect| effect.judged == what } }
    puts "  settings: #{right} of #{all.size} right within 15 % or 2 MiB, #{noise} within noise"
  end
end

def predict_print_expected(results, ways)
  ways.each { |way| PredictExpected.new(results, way).print }
end

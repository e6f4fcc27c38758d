# traces.rb - what tests of cut share: simulated traces, and a reader of dumps that knows objects.

require 'open3'
require_relative '../tap'

MALLOCTAPE = "#{BUILD}/bin/malloctape".freeze

# A recording that never was, ordered: NAME.raw and NAME.
def simulate(name, seed, events, *words)
  output_of({}, "#{BUILD}/tests/sim/simulate", '--write', '--directory=.', "seed=#{seed}", "events=#{events}",
            'tick_every=50', 'losses=0', 'unknown=0', *words)
  File.rename('raw', "#{name}.raw")
  output_of({}, "#{BUILD}/bin/postprocess", '-q', "#{name}.raw", name)
end

# The calls of a stream from its base_end on, if it has one, and the objects that are alive there. An
# object is what made it: its lane, kind, size, alignment, address and stack, and its number among the
# same.
class Trace
  Made = Struct.new(:lane, :kind, :text, :number)

  attr_reader :calls, :lives, :at_base, :ns_at_base

  def initialize(path)
    @registers = {}
    @calls = []
    @lives = []
    @ns = 0
    lines = output_of({}, MALLOCTAPE, 'dump', path).lines
    @in_base = lines.any? { |line| line.chomp.end_with?(' base_end') }
    lines.each { |line| take(line.chomp) }
  end

  # What is alive after `count` calls: made, as texts.
  def alive(count) = @lives[count]

  private

  def take(line)
    case line
    when / base_end$/ then end_base
    when / tick \d+ nanoseconds \+(\d+)/ then @ns += Regexp.last_match(1).to_i
    when /^\h+ #\d+ L(\d+) (.*)$/
      @lives << @registers.values.map(&:text).sort if @lives.empty? && !@in_base
      call(Regexp.last_match(1), Regexp.last_match(2))
    end
  end

  def end_base
    @in_base = false
    @at_base = @registers.values.map(&:text).sort
    @ns_at_base = @ns
    @lives = [@at_base]
  end

  def call(lane, text)
    kind = text[/^\w+/]
    return if %w[lane thread_begin thread_end thread_cache_deleted touched].include?(kind)
    return @pending = kind if %w[path freed_twice free_missed].include?(kind)

    done = do_call(lane, text, kind)
    return if @in_base

    @calls << [lane, @pending, done]
    @pending = nil
    @lives << @registers.values.map(&:text).sort
  end

  # Registers become what made the object.
  def do_call(lane, text, kind)
    ended = text[/^\w+ (r\d+)/, 1]
    began = text[/-> (r\d+)/, 1]
    said = text.sub(/ r\d+/, '').sub(/ -> r\d+/, ' ->')
    before = ended && @registers.fetch(ended).text
    @registers.delete(ended) if ended && !text.include?('failed')
    @registers[began] = Made.new(lane, kind, now(lane, said)) if began
    [said, before]
  end

  # What a realloc made is an object of that size and stack, whatever its kind.
  def now(lane, said) = "#{said[/ (\d+)/, 1]} #{said[/at 0x\h+/]} #{said[/stack \d+/]}"
end

# kept_trace.rb - what is in a kept trace of tests/workloads/numbered, compared with what it did.
require_relative '../tap'

Failure = Class.new(StandardError)

NUMBERED = File.join(BUILD, 'tests/workloads/numbered')
BASE = 5000
CYCLE = 997
COUNTS = %i[begun done freeing freed].freeze

def bin(name) = File.join(BUILD, 'bin', name)

# Of each thread: allocations begun and done, frees begun and done.
def counts(path) = File.binread(path).unpack('Q<*').each_slice(4).map { |four| COUNTS.zip(four).to_h }

# The calls behind the base, and what is alive at the end, by thread: numbers of objects, in the cycle.
class KeptTrace
  attr_reader :made, :live, :has_base, :calls

  def initialize(path, threads)
    @threads = threads
    @made = Array.new(threads) { [] }
    @calls = 0
    @objects = {}
    File.open("#{path}.dump", 'w+') do |dump|
      system(bin('malloctape'), 'dump', path, out: dump) || $?.exitstatus == 3 || raise(Failure, "dump fails: #{File.read("err")}")
      dump.rewind
      dump.each_line { |line| take(line) }
    end
    @live = Array.new(threads) { [] }
    @objects.each_value { |size| @live[thread_of(size)] << number_of(size) if size >= BASE }
  end

  # False of an object that the program's own libraries made.
  def take(line)
    case line
    when /[mc]alloc (\d+) -> (r\d+)/
      size = Regexp.last_match(1).to_i
      @objects[Regexp.last_match(2)] = size
      @calls += 1
      @made[thread_of(size)] << number_of(size) if size >= BASE
    when /free (r\d+)/
      @objects.delete(Regexp.last_match(1))
      @calls += 1
    when /base_end$/
      @has_base = true
      @calls = 0
      @made.each(&:clear)
    end
  end

  def thread_of(size) = (size - BASE) % @threads
  def number_of(size) = (size - BASE) / @threads

  # Raises Failure unless this is the end of what the program did, without a gap. `leak`: each leakth
  # object is never freed.
  def check(counts, leak = nil)
    counts.each_with_index do |count, thread|
      lasts = check_made(thread, count)
      next if lasts.any? { |last| live_after?(thread, count, last, leak) }

      raise Failure, "thread #{thread}: #{@live[thread].size} alive, #{count}"
    end
  end

  # How many objects the thread has made, according to the trace. A thread that made none in its time may
  # have been in the middle of a call.
  def check_made(thread, count)
    made = @made[thread]
    gap = made.each_cons(2).find { |one, next_one| next_one != (one + 1) % CYCLE }
    raise Failure, "thread #{thread}: #{gap} follow each other" if gap

    lasts = (count[:done]..count[:begun]).select { |n| made.empty? || (n - 1) % CYCLE == made.last }
    raise Failure, "thread #{thread}: the last is #{made.last}, of #{count}" if lasts.empty?

    lasts
  end

  def live_after?(thread, count, last, leak)
    live = @live[thread].sort
    (count[:freed]..count[:freeing]).any? do |gone|
      leaked = leak ? (0...gone).step(leak).to_a : []
      live == (leaked + (gone...last).to_a).map { |n| n % CYCLE }.sort
    end
  end
end

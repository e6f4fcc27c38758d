# program.rb - a program made by chance, as the calls of its threads, and what malloctape says of an
# instruction stream in the same words.
#
# A call is [thread, kind, object, size, alignment]: kind a symbol, object a serial number by
# allocation. An address is taken again when its object has been freed, as allocators do.

require 'open3'

Call = Struct.new(:thread, :kind, :object, :size, :alignment, :address, :old_address)

class Program
  ALLOCATIONS = %i[malloc malloc malloc calloc memalign].freeze

  attr_reader :calls, :live, :live_bytes, :peak_bytes

  def initialize(seed, threads: 1, count: 2000, kinds: ALLOCATIONS, reallocs: true, unit: 1)
    @random = Random.new(seed)
    @threads = threads
    @kinds = kinds
    @reallocs = reallocs
    @unit = unit
    @calls = []
    @live = {} # object => [size, address]
    @objects = @live_bytes = @peak_bytes = 0
    @unused = Array.new(5000) { |i| 0x55d0_0000_1010 + (i * 48) }
    count.times { step }
  end

  def threads = (0...@threads).map { |i| 4000 + (i * 3) }

  private

  def step
    thread = 4000 + (@random.rand(@threads) * 3)
    case @random.rand(10)
    when 0..4 then allocate(thread)
    when 5 then @reallocs && @live.any? ? reallocate(thread) : allocate(thread)
    else @live.empty? ? allocate(thread) : free(thread)
    end
    @peak_bytes = [@peak_bytes, @live_bytes].max
  end

  def size
    bytes = [@random.rand(200), @random.rand(5000), 70_000][[@random.rand(30) - 9, 0].max / 10]
    (bytes + @unit) / @unit * @unit
  end

  # The address that was freed last comes first.
  def add(object, bytes)
    @live[object] = [bytes, @unused.shift]
    @live_bytes += bytes
    @live[object][1]
  end

  def remove(object)
    bytes, address = @live.delete(object)
    @live_bytes -= bytes
    @unused.unshift(address)
    address
  end

  def allocate(thread)
    kind = @kinds.sample(random: @random)
    bytes = size
    alignment = kind == :memalign ? 64 << @random.rand(4) : 0
    object = @objects
    @objects += 1
    @calls << Call.new(thread, kind, object, bytes, alignment, add(object, bytes))
  end

  def reallocate(thread)
    object = @live.keys.sample(random: @random)
    bytes = size
    moved = @random.rand(2).zero?
    unless moved # in place
      @live_bytes += bytes - @live[object][0]
      @live[object][0] = bytes
      address = @live[object][1]
      return @calls << Call.new(thread, :realloc, object, bytes, 0, address, address)
    end
    old = @live.delete(object)
    @live_bytes -= old[0]
    address = add(object, bytes)
    @unused.unshift(old[1])
    @calls << Call.new(thread, :realloc, object, bytes, 0, address, old[1])
  end

  def free(thread)
    object = @live.keys.sample(random: @random)
    @calls << Call.new(thread, :free, object, 0, 0, remove(object))
  end
end

# The calls of a dump of an instruction stream, in the words of a program: objects by the order of
# their allocations, threads by their ids.
class Dump
  NO_CALLS = %w[path touched lane thread_end thread_cache_deleted freed_twice free_missed].freeze

  attr_reader :calls, :peak_bytes, :threads, :live, :ticks, :failed, :unknown, :moved, :metadata

  def initialize(lines)
    @calls = []
    @registers = {}
    @sizes = {}
    @threads = {}
    @metadata = {}
    @objects = @live_bytes = @peak_bytes = @ticks = @failed = @unknown = @moved = 0
    lines.each { |line| read(line.split) }
    @live = @registers.size
  end

  private

  def read(words)
    words.shift # offset
    return @metadata.store(*words[1..].join(' ').split('=', 2)) if words[0] == 'metadata'
    return unless words[0].start_with?('#')

    words.shift
    return @ticks += words[0] == 'tick' ? 1 : 0 unless words[0].start_with?('L')

    lane = words.shift[1..].to_i
    return @threads[lane] = words[1].to_i if words[0] == 'thread_begin'
    call(@threads[lane], words) unless NO_CALLS.include?(words[0])
  end

  def call(thread, words)
    kind = words.shift.to_sym
    words.pop(2) if words[-2] == 'stack'
    @moved += 1 if kind == :realloc_moved
    kind = :realloc if %i[realloc_moved realloc_in_place].include?(kind)
    return @failed += 1 if words.last == 'failed'
    return @unknown += 1 if words.first == '?'

    case kind
    when :free, :cfree, :realloc_zero then free(thread, kind, words[0])
    when :realloc then reallocate(thread, words)
    else allocate(thread, kind, words)
    end
    @peak_bytes = [@peak_bytes, @live_bytes].max
  end

  def free(thread, kind, register)
    object = @registers.delete(register)
    @live_bytes -= @sizes.delete(object)
    @calls << [thread, kind, object, 0, 0]
  end

  def reallocate(thread, words)
    object = @registers.fetch(words[0])
    @live_bytes += words[1].to_i - @sizes[object]
    @sizes[object] = words[1].to_i
    @calls << [thread, :realloc, object, words[1].to_i, 0]
  end

  def allocate(thread, kind, words)
    size = words[0].to_i
    alignment = words[1] == '->' ? 0 : words[1].to_i
    @registers[words.last] = @objects
    @sizes[@objects] = size
    @live_bytes += size
    @calls << [thread, kind, @objects, size, alignment]
    @objects += 1
  end
end

#!/usr/bin/env ruby
# instruction_dump - prints an instruction stream as `malloctape dump` does; written from
# stream/INSTRUCTIONS.md alone.
#
#   lz4 -dc FILE | instruction_dump.rb
#
# Sections are in the order of the document. Checksums are not verified (basics.rb says why).
require_relative 'basics'

# 4.5 Registers and positions; 4.3 live bytes
class Registers
  attr_reader :high, :live, :bytes
  attr_accessor :peak

  def initialize
    @order = []
    @sizes = []
    @high = @live = @bytes = @peak = 0
  end

  def allocation(size)
    @order[@live] ||= @live
    @live += 1
    @high = [@high, @live].max
    brought(@order[@live - 1], size, 0)
  end

  def realloc(position, size)
    brought(at(position), size, @sizes[at(position)])
  end

  def at(position)
    @order[@live - 1 - position]
  end

  def freeing(position)
    count(-@sizes[at(position)])
    youngest = @live - 1
    @order[youngest], @order[youngest - position] = @order[youngest - position], @order[youngest]
    @live -= 1
  end

  private

  def brought(register, size, size_before)
    @sizes[register] = size
    count(size - size_before)
    @peak = [@peak, @bytes].max
    register
  end

  def count(difference)
    @bytes = (@bytes + difference) % (2**64)
  end
end

class InstructionDump
  # 5.3 Other instructions
  LANE = 48
  THREAD_BEGIN = 49
  THREAD_END = 50
  THREAD_CACHE_DELETED = 51
  TICK = 52
  LOST = 53
  FREED_TWICE = 54
  USAGE = 55
  STATISTIC = 56
  PATH = 57
  FREE_MISSED = 58
  BASE_END = 59
  TOUCHED = 60
  SYSTEM = %w[sbrk mmap munmap].freeze
  WAYS = %w[thread_cache processor_cache contention sbrk mmap munmap malloc_and_free hook unsorted_add
            unsorted_remove unsorted_empty fastbin_add fastbin_remove consolidate].freeze

  def initialize(stream)
    @stream = stream
    @registers = Registers.new
    @lane = 0
    @instructions = 0
    @ticks = @threads = @lost = @freed_twice = 0
    @counts = Hash.new(0)
  end

  # 4. Stream
  def run
    header
    until @stream.end?
      refuse(@stream.offset, 'data after the end block') if @ended
      block
    end
    refuse(@stream.offset, 'the stream was cut short') unless @ended
  end

  # 4.1 Header
  def header
    refuse(0, 'not an instruction stream') unless @stream.take(8) == 'MTAPEINS'
    major = @stream.u16
    minor = @stream.u16
    refuse(8, "version #{major} is unknown") unless major == 4
    metadata_bytes = @stream.u32
    refuse(12, 'too much metadata') if metadata_bytes > 65_536
    features = @stream.u64
    refuse(16, format('feature bits 0x%x are unknown', features & ~31)) if features > 31
    @has_addresses = features[0] == 1
    @has_stacks = features[1] == 1
    @frees_have_stacks = features[2] == 1
    @has_mappings = features[3] == 1
    @in_base = features[4] == 1
    @definitions = Definitions.new
    info = @stream.u64
    @stream.u32 # checksum
    puts format('%012x instructions %d.%d features 0x%x info 0x%x', 0, major, minor, features, info)
    dump_metadata(@stream.part(metadata_bytes))
  end

  # 4.2 Block
  def block
    offset = @stream.offset
    magic = @stream.take(4)
    defines = @has_stacks && magic == 'MTBS'
    maps = @has_mappings && %w[MTBM MTBR].include?(magic)
    refuse(offset, 'no block here') unless magic == 'MTBI' || defines || maps
    payload_bytes = @stream.u32
    instructions = @stream.u32
    @stream.u32 # checksum
    refuse(offset, 'payload too long') if payload_bytes > 1_048_576
    refuse(offset, 'too many instructions') if instructions > 16_384
    payload = @stream.part(payload_bytes)
    return definitions(offset, payload, instructions) if defines
    return address_space(offset, payload, instructions, magic) if maps

    instructions.zero? ? finish(offset, payload) : instructions(offset, payload, instructions)
  end

  # 4.7 Mappings, 4.8 residency
  def address_space(block, payload, count, magic)
    lines = magic == 'MTBM' ? AddressSpace.mappings(payload) : AddressSpace.residency(payload)
    records = magic == 'MTBM' ? lines.size : 1
    refuse(block, "#{count} records, #{records} read") unless count == records && count.positive?
    lines.each { |line| puts format('%012x %s', block, line) }
  end

  # 4.3 Payload. A line has the offset of its block. Nothing is printed of a block with a mistake in
  # it.
  def instructions(block, payload, count)
    live_bytes = payload.varint
    peak = payload.varint
    split_columns(payload, count)
    @address = @registers.peak = 0
    lines = Array.new(count) do |index|
      offset = @opcodes.offset
      format('%012x #%d %s', block, @instructions + index, instruction(@opcodes.byte, offset))
    end
    check_used_up(operands: @operands, addresses: @addresses, stacks: @stacks)
    differ(block, 'live bytes', live_bytes, @registers.bytes)
    differ(block, 'peak bytes', peak, @registers.peak)
    @instructions += count
    puts lines
  end

  def split_columns(payload, count)
    operands = payload.varint
    addresses = payload.varint if @has_stacks
    @opcodes, @low, @high = Array.new(3) { payload.part(count) }
    @operands = payload.part(operands)
    @addresses = payload.part(addresses || payload.left)
    @stacks = payload.part(payload.left)
  end

  # 4.4 Values
  def value
    value = @low.byte | (@high.byte << 8)
    value == 0xffff ? @operands.varint : value
  end

  # 5. Instructions
  def instruction(opcode, offset)
    value = self.value
    call = CALLS[opcode & 0x3f]
    if call
      @counts[call.number] += 1 unless @in_base
      return "L#{@lane} #{call(call, opcode[6] == 1, opcode[7] == 1, value, offset)}"
    end

    refuse(offset, format('opcode 0x%02x: flags that are not allowed', opcode)) if opcode > 0x3f
    no_value(value, offset)
    other(opcode, offset)
  end

  # 5.1 Calls
  def call(call, failed, unknown, value, offset)
    allocations = ALLOCATIONS.include?(call.shape)
    frees = FREES.include?(call.shape)
    # A failed realloc has the number of realloc_moved.
    refuse(offset, 'failed is not allowed here') if
      failed && !allocations && call.name != 'realloc_moved'
    refuse(offset, 'unknown is not allowed here') if unknown && !frees && call.shape != :REALLOC
    no_value(value, offset) if unknown || call.shape == :HEAP
    return heap_text(call, heap_numbers(offset)) if call.shape == :HEAP

    size = allocations ? value : (@operands.varint if WITH_SIZE.include?(call.shape))
    position = position(value, offset) unless allocations || unknown
    register = position && @registers.at(position)
    alignment = @operands.varint if WITH_ALIGNMENT.include?(call.shape)
    allocated = allocated(call.shape, position, size) unless failed
    @registers.freeing(position) if frees && position
    call_text(call, died: died_text(allocations, register), size:, alignment:,
              allocated: allocated && "r#{allocated}", address: allocated && address,
              stack: (allocated || (frees && @frees_have_stacks)) && stack, failed:)
  end

  def died_text(allocations, register)
    return if allocations

    register ? "r#{register}" : '?'
  end

  # A realloc keeps its register; of an unknown object it takes one as an allocation does.
  def allocated(shape, position, size)
    return if FREES.include?(shape)

    position ? @registers.realloc(position, size) : @registers.allocation(size)
  end

  def position(position, offset)
    refuse(offset, "no object at position #{position}") unless position < @registers.live
    position
  end

  # 4.4
  def no_value(value, offset)
    refuse(offset, "value #{value}") unless value.zero?
  end

  def heap_numbers(offset)
    count = @operands.varint
    refuse(offset, "#{count} numbers") if count > 2
    Array.new(count) { @operands.varint }
  end

  # 4.3: the differences of a block are from zero at first.
  def address
    return unless @has_addresses

    @address = (@address + (8 * @addresses.svarint)) % (2**64)
  end

  # 4.6 Call stacks
  def stack
    return unless @has_stacks

    offset = @stacks.offset
    node = @stacks.varint
    refuse(offset, "stack #{node}") unless node < 1 << 28
    node
  end

  def definitions(block, payload, count)
    refuse(block, 'no definitions') if count.zero?
    count.times { puts format('%012x %s', block, definition(payload)) }
    check_used_up(definitions: payload)
  end

  def definition(payload)
    offset = payload.offset
    more, what = payload.varint.divmod(8)
    refuse(offset, "#{more} of what has no number") if what < 3 && more.positive?
    first = payload.varint
    case what
    when 1 then @definitions.module(offset, first, *Array.new(3) { payload.varint })
    when 2 then @definitions.unloaded(offset, first)
    when 3
      @definitions.text(offset, more, first, payload.varint, payload.varint) do |bytes|
        payload.take(bytes)
      end
    when 4 then @definitions.codes(offset, first, payload.varint, offsets(payload, more))
    when 5 then @definitions.nodes(offset, first, payload.varint, Array.new([more, 17].min) { payload.varint })
    else refuse(offset, "a definition of #{what}")
    end
  end

  # Differences to the one before.
  def offsets(payload, count)
    offset = 0
    Array.new([count, 9].min) { offset = (offset + payload.svarint) % (2**64) }
  end

  # 5.3 Other instructions
  def other(number, offset)
    case number
    when LANE
      @lane = lane(offset)
      "L#{@lane} lane"
    when THREAD_BEGIN
      @threads += 1
      "L#{@lane} thread_begin #{@operands.varint}"
    when THREAD_END then "L#{@lane} thread_end"
    when THREAD_CACHE_DELETED then "L#{@lane} thread_cache_deleted"
    when FREED_TWICE then freed_twice
    when FREE_MISSED then "L#{@lane} free_missed"
    when BASE_END then base_end(offset)
    when PATH then path
    when TOUCHED then "L#{@lane} touched #{@operands.varint} #{@operands.varint}"
    when TICK then tick(offset)
    when USAGE then usage
    when STATISTIC then statistic(offset)
    when LOST then lost(lane(offset))
    else refuse(offset, "instruction #{number} is undefined")
    end
  end

  def lane(offset)
    lane = @operands.varint
    refuse(offset, "lane #{lane}") if lane > 65_535
    lane
  end

  def lost(lane)
    events = @operands.varint
    @lost += events
    "lost lane #{lane} events #{events}"
  end

  def path
    ways = @operands.varint
    names = WAYS.each_index.select { |bit| ways[bit] == 1 }.map { |bit| WAYS[bit] }
    letters = [(names & %w[thread_cache processor_cache]).any? && (names & SYSTEM).empty? ? 'T' : '-', '-', '-',
               (names & SYSTEM).any? ? 'S' : '-', names.include?('contention') ? 'W' : '-', '-', '-']
    ["L#{@lane} path #{letters.join}", *names].join(' ')
  end

  # 4.9 The base. Calls of it are not counted, the rest is.
  def base_end(offset)
    refuse(offset, 'the end of a base') unless @in_base && @opcodes.end?
    @in_base = false
    'base_end'
  end

  def freed_twice
    @freed_twice += 1 unless @in_base
    "L#{@lane} freed_twice"
  end

  def tick(offset)
    @ticks += 1
    text = "tick #{@ticks - 1} nanoseconds +#{@operands.varint} " \
           "rss #{@operands.varint} heap #{@operands.varint}"
    live_bytes = @operands.varint
    differ(offset, 'live bytes', live_bytes, @registers.bytes)
    "#{text} live #{live_bytes}"
  end

  def usage
    format('usage recorder %d user %d system %d peak %d', *Array.new(4) { @operands.varint })
  end

  def statistic(offset)
    index = @operands.varint
    refuse(offset, "statistic #{index}") if index > 15
    "statistic #{index} is #{@operands.varint}"
  end

  # 6. End block. Checked before anything is printed.
  def finish(offset, payload)
    status, live, high, threads, lost, twice = Array.new(6) { payload.varint }
    counts = payload.pairs
    check_used_up(end: payload)
    refuse(offset, "status #{status}") if status > 3
    refuse(offset, 'a base that has not ended') if @in_base
    differ(offset, 'live objects', live, @registers.live)
    differ(offset, 'registers', high, @registers.high)
    differ(offset, 'threads', threads, @threads)
    differ(offset, 'lost events', lost, @lost)
    differ(offset, 'freed twice', twice, @freed_twice)
    differ(offset, 'calls by kind', counts.reject { |_kind, count| count.zero? }.sort, @counts.sort)
    puts format('%012x end status %d live %d registers %d threads %d lost %d',
                offset, status, live, high, threads, lost)
    @counts.sort.each do |kind, count|
      puts format('%012x end count %s %d', offset, CALLS[kind].name, count)
    end
    @ended = true
  end

  def differ(offset, what, told, counted)
    refuse(offset, "#{what}: #{told} stated, #{counted} counted") unless told == counted
  end
end

run_dump('instruction_dump') { |bytes| InstructionDump.new(bytes).run } if $PROGRAM_NAME == __FILE__

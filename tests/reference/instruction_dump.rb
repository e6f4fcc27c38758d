#!/usr/bin/env ruby
# instruction_dump - prints an instruction stream as `malloctape dump` does; written from
# postprocess/INSTRUCTIONS.md alone.
#
#   lz4 -dc FILE | instruction_dump.rb
#
# Sections are in the order of the document. Checksums are not verified (basics.rb says why).
require_relative 'basics'

# 4.4 Registers
class Registers
  attr_reader :high

  def initialize
    @free = []
    @high = 0
    @live = {}
  end

  def birth
    register = @free.pop
    unless register
      register = @high
      @high += 1
    end
    @live[register] = true
    register
  end

  def death(register)
    @live.delete(register)
    @free.push(register)
  end

  def live?(register) = @live.key?(register)
  def live = @live.size
end

# 5.3 Other instructions
LANE = 48
THREAD_BEGIN = 49
THREAD_END = 50
THREAD_CACHE_DELETED = 51
TICK = 52
LOST = 53

class InstructionDump
  def initialize(stream)
    @stream = stream
    @registers = Registers.new
    @lane = 0
    @instructions = 0
    @ticks = 0
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
    refuse(8, "version #{major} is unknown") unless major == 1
    metadata_bytes = @stream.u32
    refuse(12, 'too much metadata') if metadata_bytes > 65_536
    features = @stream.u64
    refuse(16, format('feature bits 0x%x are unknown', features & ~1)) if features > 1
    @has_addresses = features[0] == 1
    info = @stream.u64
    @stream.u32 # checksum
    puts format('%012x instructions %d.%d features 0x%x info 0x%x', 0, major, minor, features, info)
    dump_metadata(@stream.part(metadata_bytes))
  end

  # 4.2 Block
  def block
    offset = @stream.offset
    refuse(offset, 'no block here') unless @stream.take(4) == 'MTBI'
    payload_bytes = @stream.u32
    instructions = @stream.u32
    @stream.u32 # checksum
    refuse(offset, 'payload too long') if payload_bytes > 1_048_576
    refuse(offset, 'too many instructions') if instructions > 16_384
    payload = @stream.part(payload_bytes)
    instructions.zero? ? finish(offset, payload) : instructions(offset, payload, instructions)
  end

  # 4.3 Payload. A line has the offset of its block.
  def instructions(block, payload, count)
    @columns = split_columns(payload, %i[opcodes sizes registers misc addresses])
    @sizes, @operands, @misc = @columns.values_at(:sizes, :registers, :misc)
    @address = 0
    count.times do
      offset = @columns[:opcodes].offset
      text = instruction(@columns[:opcodes].byte, offset)
      puts format('%012x #%d %s', block, @instructions, text)
      @instructions += 1
    end
    check_used_up(@columns)
  end

  # 5. Instructions
  def instruction(opcode, offset)
    call = CALLS[opcode & 0x3f]
    return "L#{@lane} #{call(call, opcode[6] == 1, opcode[7] == 1, offset)}" if call

    refuse(offset, format('opcode 0x%02x: flags that are not allowed', opcode)) if opcode > 0x3f
    other(opcode, offset)
  end

  # 5.1 Calls
  def call(call, failed, unknown, offset)
    births = BIRTHS.include?(call.shape)
    deaths = DEATHS.include?(call.shape)
    # A failed realloc has the number of realloc_moved.
    refuse(offset, 'failed is not allowed here') if failed && !births && call.name != 'realloc_moved'
    refuse(offset, 'unknown is not allowed here') if unknown && !deaths && call.shape != :REALLOC
    return heap_text(call, heap_numbers(offset)) if call.shape == :HEAP

    size = @sizes.varint if WITH_SIZE.include?(call.shape)
    register = register(offset) unless births || unknown
    alignment = @misc.varint if WITH_ALIGNMENT.include?(call.shape)
    born = born(call.shape, register) unless failed
    @registers.death(register) if deaths && register
    call_text(call, died: died_text(births, register), size:, alignment:, born: born && "r#{born}",
                    address: born && address, failed:)
  end

  def died_text(births, register)
    return if births

    register ? "r#{register}" : '?'
  end

  # A realloc keeps its register; of an unknown object it takes one as a birth does.
  def born(shape, register)
    return if DEATHS.include?(shape)

    register || @registers.birth
  end

  def register(offset)
    register = @operands.varint
    refuse(offset, "register #{register} is not live") unless @registers.live?(register)
    register
  end

  def heap_numbers(offset)
    count = @misc.varint
    refuse(offset, "#{count} numbers") if count > 2
    Array.new(count) { @misc.varint }
  end

  # 4.3: the differences of a block are from zero at first.
  def address
    return unless @has_addresses

    @address += 8 * @columns[:addresses].svarint
  end

  # 5.3 Other instructions
  def other(number, offset)
    case number
    when LANE
      @lane = @misc.varint
      "L#{@lane} lane"
    when THREAD_BEGIN then "L#{@lane} thread_begin #{@misc.varint}"
    when THREAD_END then "L#{@lane} thread_end"
    when THREAD_CACHE_DELETED then "L#{@lane} thread_cache_deleted"
    when TICK then tick
    when LOST then "lost lane #{@misc.varint} events #{@misc.varint}"
    else refuse(offset, "instruction #{number} is undefined")
    end
  end

  def tick
    @ticks += 1
    "tick #{@ticks - 1} nanoseconds +#{@misc.varint} rss #{@misc.varint} heap #{@misc.varint}"
  end

  # 6. End block
  def finish(offset, payload)
    at = format('%012x', offset)
    status, live, high, threads, lost = Array.new(5) { payload.varint }
    refuse(offset, "#{live} live objects, #{@registers.live} counted") unless live == @registers.live
    refuse(offset, "#{high} registers, #{@registers.high} counted") unless high == @registers.high
    puts "#{at} end status #{status} live #{live} registers #{high} threads #{threads} lost #{lost}"
    payload.varint.times do
      call = CALLS[payload.varint] || refuse(offset, 'an undefined kind is counted')
      count = payload.varint
      puts "#{at} end count #{call.name} #{count}" if count.positive?
    end
    check_used_up(end: payload)
    @ended = true
  end
end

run_dump('instruction_dump') { |bytes| InstructionDump.new(bytes).run }
